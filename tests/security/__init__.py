"""What other accounts, and hostile files, must not achieve."""
