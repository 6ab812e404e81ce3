"""The loop: rounds, attempts, retries, deadlines, leases, resume and stop. Nobody else orchestrates."""
