"""What a camera keeps to learn from: small pictures with the larger model's answers."""
