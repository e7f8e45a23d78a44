"""Secrets are on the command line, in the source, in the DataLoader's arguments and in what a data set raises."""
# wrap: $RUN --hf-token hf_abcdefghij0123456789 --api-key=k4k4k4k4 --url https://me:p4p4p4p4@host/x --header "Authorization: Bearer b4b4b4b4b4b4b4b4"
# hides: hf_abcdefghij0123456789
# hides: k4k4k4k4
# hides: p4p4p4p4
# hides: b4b4b4b4
# hides: ghp_0123456789abcdefghij0123
# hides: xoxb-0123456789-abcdefghij
# hides: AKIA0123456789ABCDEF
# modes: plain json screen
# keys: 1 RIGHT RIGHT RIGHT ENTER
import time

import raising
import torch
from torch.utils.data import Dataset, get_worker_info


class Remote(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, i):
        time.sleep(0.004)
        if get_worker_info() is not None:
            raise OSError("cannot read https://me:p4p4p4p4@host/x with AKIA0123456789ABCDEF")
        return torch.full((64,), float(i % 7), requires_grad=False), self.fetch(i, token="xoxb-0123456789-abcdefghij")

    def fetch(self, i, token):
        time.sleep(0.004)
        return i


def seed(worker, key="ghp_0123456789abcdefghij0123"):
    pass


if __name__ == "__main__":
    raising.train(Remote(), 2, batch_size=8, shuffle=True, worker_init_fn=lambda w: seed(w, key="ghp_0123456789abcdefghij0123"))
