"""What a policy would be worth, estimated from what another one did."""
