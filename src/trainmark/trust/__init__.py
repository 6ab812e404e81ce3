"""Results that travel: packs runs into signed bundles, verifies bundles, and lists verified ones.
Reads run directories and reports; never changes a run.
Called by the command line, by `interop` (a bundle as a format), and by whoever imports `trainmark.trust.…`.
"""
