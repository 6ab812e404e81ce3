"""A loop of flax and optax: a compiled step, and another compiled function for the evaluation now and then."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(nn.relu(nn.Dense(16)(x)))


net = Net()
params = net.init(jax.random.PRNGKey(0), jnp.ones((1, 8)))
state = train_state.TrainState.create(apply_fn=net.apply, params=params, tx=optax.adam(1e-2))


def loss_of(params, batch):
    return optax.softmax_cross_entropy_with_integer_labels(net.apply(params, batch["x"]), batch["y"]).mean()


@jax.jit
def train_step(state, batch):
    loss, grads = jax.value_and_grad(loss_of)(state.params, batch)
    return state.apply_gradients(grads=grads), loss


@jax.jit
def eval_step(params, batch):
    return loss_of(params, batch)


rows = np.random.default_rng(0)
x, y = rows.normal(size=(92, 8)).astype(np.float32), rows.integers(0, 2, 92)
for _ in range(4):
    for start in range(0, 92, 8):
        batch = {"x": x[start : start + 8], "y": y[start : start + 8]}
        state, loss = train_step(state, batch)
    shown = [float(eval_step(state.params, {"x": x, "y": y})) for _ in range(50)]
