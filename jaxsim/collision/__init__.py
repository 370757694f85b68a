"""Shape pairs to contact points. Every possible point has a fixed slot; idle ones are masked."""
