"""The cluster files that the documents of Ray 0.8.5 show, and files with each key of that time and of today.

What a page shows as a part of a file is completed here by `cluster_name` and `provider`, as the text around it says.
"""

from __future__ import annotations

_AWS = "cluster_name: default\nprovider: {type: aws, region: us-west-2}\n"

SHOWN = {
    "external provider": """
cluster_name: default
provider:
  type: external
  module: mypackage.myclass
""",
    "git branch": _AWS
    + """
file_mounts: {
    "/tmp/current_branch_sha": "head_of_branch",
}

setup_commands:
    - test -e <REPO_NAME> || git clone https://github.com/<REPO_ORG>/<REPO_NAME>.git
    - cd <REPO_NAME> && git fetch && git checkout `cat /tmp/current_branch_sha`
""",
    "Amazon EFS": _AWS
    + """
setup_commands:
  - sudo kill -9 `sudo lsof /var/lib/dpkg/lock-frontend | awk '{print $2}' | tail -n 1`;
    sudo pkill -9 apt-get;
    sudo dpkg --configure -a;
    cd $HOME;
    mkdir efs;
    sudo mount -t efs {{FileSystemId}}:/ efs;
    sudo chmod 777 efs;
""",
    "GPU single node": _AWS
    + """
max_workers: 0
head_node:
  InstanceType: p2.8xlarge
""",
    "Docker": _AWS
    + """
docker:
  image: tensorflow/tensorflow:1.5.0-py3
  container_name: ray_docker
""",
    "mixed GPU and CPU nodes": _AWS
    + """
max_workers: 10
head_node:
  InstanceType: p2.8xlarge
worker_nodes:
  InstanceType: m4.16xlarge
""",
    "autoscaling CPU cluster": _AWS
    + """
min_workers: 0
max_workers: 10
head_node:
  InstanceType: m4.large
worker_nodes:
    InstanceMarketOptions:
        MarketType: spot
    InstanceType: m4.16xlarge
""",
    "autoscaling GPU cluster": _AWS
    + """
min_workers: 0 # NOTE: older Ray versions may need 1+ GPU workers (#2106)
max_workers: 10
head_node:
    InstanceType: m4.large
worker_nodes:
    InstanceMarketOptions:
        MarketType: spot
    InstanceType: p2.xlarge
""",
    "Tune on machines of one's own": """
cluster_name: local-default
provider:
  type: local
  head_ip: YOUR_HEAD_NODE_HOSTNAME
  worker_ips: [WORKER_NODE_1_HOSTNAME, WORKER_NODE_2_HOSTNAME, ... ]
auth: {ssh_user: YOUR_USERNAME, ssh_private_key: ~/.ssh/id_rsa}
## Typically for local clusters, min_workers == max_workers.
min_workers: 3
max_workers: 3
setup_commands: # Set up each node.
    - pip install ray torch torchvision tabulate tensorboard
""",
    "Tune in the cloud": """
cluster_name: tune-default
provider: {type: aws, region: us-west-2}
auth: {ssh_user: ubuntu}
min_workers: 3
max_workers: 3
# Deep Learning AMI (Ubuntu) Version 21.0
head_node: {InstanceType: c5.xlarge, ImageId: ami-0b294f219d14e6a82}
worker_nodes: {InstanceType: c5.xlarge, ImageId: ami-0b294f219d14e6a82}
setup_commands: # Set up each node.
    - pip install ray torch torchvision tabulate tensorboard
""",
    "spot instances": _AWS
    + """
worker_nodes:
    InstanceType: m5.large
    ImageId: ami-0b294f219d14e6a82 # Deep Learning AMI (Ubuntu) Version 21.0

    # Run workers on spot by default. Comment this out to use on-demand.
    InstanceMarketOptions:
        MarketType: spot
        SpotOptions:
            MaxPrice: 1.0 # Max Hourly Price
""",
    "preemptible instances": """
cluster_name: default
provider: {type: gcp, region: us-west1, availability_zone: us-west1-a, project_id: null}
worker_nodes:
    machineType: n1-standard-2
    disks:
        - boot: true
          autoDelete: true
          type: PERSISTENT
          initializeParams:
            diskSizeGb: 50
    scheduling:
      - preemptible: true
""",
}
"""By what the pages call them."""

EVERY_OLD_KEY = """
cluster_name: default
min_workers: 0
max_workers: 2
initial_workers: 1
autoscaling_mode: default
docker:
    image: ""
    container_name: ""
    pull: True
    pull_before_run: True
    run_options: []
    head_image: ""
    head_run_options: []
    worker_image: ""
    worker_run_options: []
target_utilization_fraction: 0.8
idle_timeout_minutes: 5
provider:
    type: aws
    region: us-west-2
    availability_zone: us-west-2a,us-west-2b
    cache_stopped_nodes: True
auth:
    ssh_user: ubuntu
    ssh_private_key: /path/to/your/key.pem
    ssh_public_key: /path/to/your/key.pub
head_node:
    InstanceType: m5.large
worker_nodes:
    InstanceType: m5.large
file_mounts: {
}
initialization_commands: []
setup_commands:
    - echo 'export PATH="$HOME/anaconda3/envs/tensorflow_p36/bin:$PATH"' >> ~/.bashrc
head_setup_commands:
    - pip install boto3==1.4.8  # 1.4.8 adds InstanceMarketOptions
worker_setup_commands: []
head_start_ray_commands:
    - ray stop
    - ulimit -n 65536; ray start --head --redis-port=6379 --object-manager-port=8076
      --autoscaling-config=~/ray_bootstrap_config.yaml
worker_start_ray_commands:
    - ray stop
    - ulimit -n 65536; ray start --redis-address=$RAY_HEAD_IP:6379 --object-manager-port=8076
no_restart: false
"""

EVERY_KEY_OF_TODAY = """
cluster_name: default
min_workers: 1
max_workers: 2
upscaling_speed: 1.0
idle_timeout_minutes: 5
docker:
    image: "rayproject/ray-ml:latest"
    head_image: "rayproject/ray:latest"
    worker_image: "rayproject/ray:latest"
    container_name: "ray_container"
    pull_before_run: False
    run_options: ["--ulimit nofile=65536:65536"]
    head_run_options: []
    worker_run_options: []
    disable_automatic_runtime_detection: True
    disable_shm_size_detection: True
    use_podman: True
provider:
    type: gcp
    region: us-west1
    availability_zone: us-west1-a
    project_id: mine
auth:
    ssh_user: ubuntu
    ssh_proxy_command: "ssh -W %h:%p gateway"
available_node_types:
    ray_head_default:
        resources: {"CPU": 2}
        node_config:
            machineType: n1-standard-2
    ray_worker_small:
        min_workers: 1
        max_workers: 2
        resources: {"CPU": 2, "custom": 1}
        labels: {tier: small}
        node_config:
            machineType: n1-standard-2
        worker_setup_commands: [echo small]
        docker: {worker_image: other}
head_node_type: ray_head_default
worker_default_node_type: ray_worker_small
file_mounts: {}
cluster_synced_files: []
file_mounts_sync_continuously: False
rsync_exclude: ["**/.git", "**/.git/**"]
rsync_filter: [".gitignore"]
metadata: {anything: 1}
initialization_commands: [echo outside]
setup_commands: []
head_setup_commands: []
worker_setup_commands: []
head_start_ray_commands:
    - ray stop
    - ray start --head --port=6379 --object-manager-port=8076 --autoscaling-config=~/ray_bootstrap_config.yaml
worker_start_ray_commands:
    - ray stop
    - ray start --address=$RAY_HEAD_IP:6379 --object-manager-port=8076
no_restart: False
"""
