"""AutoML as a load: architectures are searched and trained, and the cluster is scored by what that cost and reached."""
