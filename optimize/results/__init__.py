"""Result folders: files, locks, and the digest of what a run started with."""
