"""`Model.fit` on arrays: the last batch is smaller, a part is kept for validation."""

import keras
import numpy as np

model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
rows = np.random.default_rng(0)
x, y = rows.normal(size=(100, 8)).astype("float32"), rows.integers(0, 2, 100)
model.fit(x, y, batch_size=16, epochs=3, validation_split=0.1, verbose=0)
