"""Problems as reinforcement-learning environments: observations, actions, rewards, terminations."""
