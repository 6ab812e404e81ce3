"""The Trainer of transformers: accumulation, evaluation after each epoch, a partial last batch. No network."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

config = BertConfig(
    vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=2
)


def rows(count):
    ids = torch.randint(0, 64, (count, 8))
    return [{"input_ids": ids[row], "labels": row % 2} for row in range(count)]


with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=2,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    model = BertForSequenceClassification(config)
    # 46 samples by 4: 12 batches, the last of 2; a step for each 2 batches.
    Trainer(model, arguments, train_dataset=rows(46), eval_dataset=rows(20)).train()
