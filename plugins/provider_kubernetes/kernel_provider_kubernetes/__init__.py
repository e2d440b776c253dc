"""The node provider `kubernetes`: nodes of a cluster that are pods.

`provider` is the contract. `options` reads the configuration, `kinds` what a kind of pod has, `pods` composes a pod,
`pod_states` says what became of one, `pod_mirror` keeps what was heard of them, `pod_watch` listens. `api_server` calls
an API server, `api_errors` says what a refusal means; `access`, `kubeconfig` and `exec_credentials` find it and log in.
"""
