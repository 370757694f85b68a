"""Problems as environments: what is observed, done and rewarded, at the engine's full speed."""
