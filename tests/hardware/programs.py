"""What the sessions of these tests run."""

CRASH = '''
import ctypes, sys
PTX = b"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry wild()
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<2>;
    mov.u64 %rd1, 16;
    mov.u32 %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
\\0"""
cuda = ctypes.CDLL("libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"wild") == 0
assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
code = cuda.cuCtxSynchronize()
print("the driver answers", code, flush=True)
sys.exit(7 if code else 0)
'''
"""Writes to an address that nobody has given it; exits with 7 when the driver has ended it for that."""

AFFINITY = """
import os, torch
from torch.utils.data import DataLoader, Dataset

class Cores(Dataset):
    def __len__(self): return 8
    def __getitem__(self, at): return len(os.sched_getaffinity(0))

torch.ones(1, device="cuda").sum().item()
torch.mm(torch.ones(512, 512), torch.ones(512, 512))
seen = {int(n) for batch in DataLoader(Cores(), num_workers=4, batch_size=2) for n in batch}
print("main", len(os.sched_getaffinity(0)), "workers", *sorted(seen), "threads", torch.get_num_threads())
"""
"""CPUs of a training program and of its loaders of data, after OpenMP has run."""

TRAINING = """
import os, signal, sys, time, torch
STEPS, PLACE = int(sys.argv[1]), "ckpt/state.pt"
torch.manual_seed(0)
model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.Adam(model.parameters())
step, asked, first = 0, False, not os.path.exists(PLACE)

def remember(number, frame):
    global asked
    asked = True

signal.signal(signal.SIGUSR1, remember)
if os.path.exists(PLACE):
    state = torch.load(PLACE)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
print("begins at", step, flush=True)
last = max(STEPS, step + 20)
while first or step < last:
    x = torch.randn(256, 1024, device="cuda")
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    time.sleep(0.05)
    if asked:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, PLACE + ".new")
        os.replace(PLACE + ".new", PLACE)
        print("saved at", step, flush=True)
        sys.exit(0)
print("done at", step, "loss", round(loss.item(), 4), flush=True)
"""
"""Trains until it is asked to end, and saves a checkpoint; from that on to so many steps, or a few more."""
