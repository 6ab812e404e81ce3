"""Many updates inside one compiled loop: nobody outside of it can count them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

tx = optax.sgd(0.1)


@jax.jit
def train_epoch(carry, batches):
    def one(carry, batch):
        params, state = carry
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((batch @ p) ** 2))(params)
        updates, state = tx.update(grads, state)
        return (optax.apply_updates(params, updates), state), loss

    return jax.lax.scan(one, carry, batches)


params = jnp.ones((8,))
carry = params, tx.init(params)
for _ in range(5):
    carry, losses = train_epoch(carry, np.ones((10, 4, 8), np.float32))
