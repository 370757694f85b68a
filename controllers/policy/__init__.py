"""Policies: small networks that turn what they observe into what the motors do."""
