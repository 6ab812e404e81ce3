"""Reading files of other tools into run directories."""
