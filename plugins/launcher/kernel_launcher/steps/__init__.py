"""What has to be done on a machine, as steps that may be repeated: pure values, computed before anything is done."""
