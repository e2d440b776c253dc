"""Convert values to bytes and back: the default serializer, its checks, and the reasons why a value can't be sent."""
