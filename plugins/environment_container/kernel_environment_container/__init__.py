"""The fields `container` and `image_uri` of a runtime_env: workers that run in containers.

`description` reads what was given, `builder` is the contract, `programs` finds podman, docker or bubblewrap, `commands`
composes what it is asked to do, `contents` looks into an image, `leftovers` clears away what a killed session left,
`plugin` offers it to the kernel. `launch` runs on the node as a worker's interpreter, and `entry` in the container.
"""
