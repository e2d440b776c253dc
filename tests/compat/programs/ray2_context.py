"""Where code runs: names, ids, namespaces, in the words of 1.x and 2.x."""

import ray

ray.init(num_cpus=2, namespace="mine")
context = ray.get_runtime_context()
print(context.namespace, context.get_task_id(), context.get_actor_id())
assert context.job_id.hex() == context.get_job_id() and context.node_id.hex() == ray.nodes()[0]["NodeID"]


@ray.remote
def task():
    context = ray.get_runtime_context()
    return context.get_task_name(), context.get_task_id() is not None, context.get_job_id()


assert ray.put(1).job_id().hex() == context.get_job_id() and context.get_node_labels() == {
    "ray.io/node-id": context.get_node_id()
}
name, has_id, job = ray.get(task.remote())
print(name, has_id, job == context.get_job_id())


@ray.remote
class Actor:
    def me(self):
        context = ray.get_runtime_context()
        handle = context.current_actor
        return context.get_actor_name(), context.get_actor_id() == handle._actor_id.hex()

    def restarted(self):
        return ray.get_runtime_context().was_current_actor_reconstructed


actor = Actor.options(name="named", namespace="theirs").remote()
print(ray.get(actor.me.remote()), ray.get(actor.restarted.remote()))
print(ray.get(ray.get_actor("named", namespace="theirs").me.remote())[0])
print(ray.util.list_named_actors(all_namespaces=True))
again = Actor.options(name="once", get_if_exists=True).remote()
print(Actor.options(name="once", get_if_exists=True).remote() == again)
print(ray.get(actor.__ray_call__.remote(lambda self, word: f"{type(self).__name__} says {word}", "yes")))

# prints:
# mine None None
# task True True
# ('named', True) False
# named
# [{'namespace': 'theirs', 'name': 'named'}]
# True
# Actor says yes
