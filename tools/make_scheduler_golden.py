"""Writes tests/golden/schedulers.safetensors: whole runs of the samplers that a runtime must match.

Run from the root of the repository, with the packages of tests/torch/requirements.txt and FastVideo's wheel
(tools/fastvideo_wheels.sh), whose files are read and not imported as a package:
    python tools/make_scheduler_golden.py WHEEL
    python tools/make_scheduler_golden.py WHEEL --wan fm_solvers_unipc.py   # also compares with Wan's own file
"""
from __future__ import annotations

import argparse
import hashlib
import importlib.util
import sys
import types
import zipfile
from pathlib import Path

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from training.folder import write_tensors  # noqa: E402

SEED = 31
SHAPE = (1, 2, 1, 3, 4)
STEPS = (1, 2, 4, 10, 50)
SHIFTS = (1.0, 3.0, 8.0)
# name: (shift, listed timesteps); the first is FastWan's.
FEW_STEP = {"fastwan": (8.0, [1000, 757, 522]), "four": (5.0, [1000, 750, 500, 250])}


def fastvideo_module(wheel: Path, name: str) -> types.ModuleType:
    """A module of fastvideo.models.schedulers, without the package around it and what that needs."""
    with zipfile.ZipFile(wheel) as archive:
        for part in ("base", name):
            full = f"fastvideo.models.schedulers.{part}"
            module = sys.modules.setdefault(full, types.ModuleType(full))
            exec(compile(archive.read(full.replace(".", "/") + ".py"), full, "exec"), module.__dict__)
    return module


def stand_in_packages() -> None:
    """SciPy is for levels that no model of Wan has."""
    packages = ("fastvideo", "fastvideo.models", "fastvideo.models.schedulers", "fastvideo.logger", "scipy", "scipy.stats")
    for name in packages:
        sys.modules[name] = types.ModuleType(name)
    sys.modules["fastvideo.logger"].init_logger = lambda name: None


def prediction(x: torch.Tensor, push: torch.Tensor) -> torch.Tensor:
    """What stands for the model: each element and its neighbour, and a push of the step's own."""
    flat = x.flatten()
    return ((0.6 * flat - 0.4 * flat.roll(-1)) + push).reshape(x.shape)


def run(scheduler, inputs: dict) -> dict[str, torch.Tensor]:
    """All latents of a run, for which set_timesteps was called."""
    x, after = inputs["noise"], []
    scheduler.set_begin_index(0)
    for i, t in enumerate(scheduler.timesteps):
        x = scheduler.step(prediction(x, inputs["push"][i]), t, x, return_dict=False)[0]
        after.append(x.flatten())
    return {"sigmas": scheduler.sigmas.float(), "timesteps": scheduler.timesteps.float(), "x": torch.stack(after)}


def schedulers(unipc_class, steps: int, shift: float) -> dict:
    """Each as its users set it up: Wan's generate.py shifts in set_timesteps, FastVideo in the constructor as well."""
    found = {
        "unipc": UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift),
        "unipc-wan": unipc_class(num_train_timesteps=1000, shift=1),
        "unipc-fastvideo": unipc_class(shift=shift),
        "euler": FlowMatchEulerDiscreteScheduler(shift=shift),
    }
    for name, scheduler in found.items():
        scheduler.set_timesteps(steps, **({"shift": shift} if name == "unipc-wan" else {}))
    return found


def few_step(scheduler_class, shift: float, timesteps: list[int], inputs: dict) -> dict[str, torch.Tensor]:
    """The loop of FastVideo's DmdDenoisingStage in f32, with its scheduler's table and its add_noise."""
    scheduler = scheduler_class(shift=shift)
    x, after, sigmas = inputs["noise"], [], []
    for i, t in enumerate(timesteps):
        nearest = (scheduler.timesteps.double() - t).abs().argmin()
        sigma = scheduler.sigmas.double()[nearest]
        x0 = (x.double() - sigma * prediction(x, inputs["push"][i]).double()).float()
        x = x0
        if i + 1 < len(timesteps):
            x = scheduler.add_noise(x0.flatten(0, 1), inputs["fresh"][i].reshape(SHAPE).flatten(0, 1),
                                    torch.tensor([timesteps[i + 1]])).reshape(SHAPE)
        sigmas.append(sigma.float())
        after.append(x.flatten())
    return {"sigmas": torch.stack([*sigmas, torch.tensor(0.0)]), "timesteps": torch.tensor(timesteps).float(),
            "x": torch.stack(after)}


def compare_with_wan(path: Path, unipc_class, inputs: dict) -> None:
    """FastVideo's class is Wan's with a few lines changed; none of them may show when it is called as Wan does."""
    spec = importlib.util.spec_from_file_location("wan_unipc", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for shift in SHIFTS:
        for steps in STEPS:
            runs = []
            for cls in (module.FlowUniPCMultistepScheduler, unipc_class):
                scheduler = cls(num_train_timesteps=1000, shift=1)
                scheduler.set_timesteps(steps, shift=shift)
                runs.append(run(scheduler, inputs))
            same = all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
            print(f"Wan's own, {steps} steps, shift {shift:g}: {'same bits' if same else 'OTHER BITS'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--wan", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden/schedulers.safetensors")
    args = parser.parse_args()
    torch.set_num_threads(1)
    stand_in_packages()
    unipc_class = fastvideo_module(args.wheel, "scheduling_flow_unipc_multistep").FlowUniPCMultistepScheduler
    euler_class = fastvideo_module(args.wheel, "scheduling_flow_match_euler_discrete").FlowMatchEulerDiscreteScheduler

    generator = torch.Generator().manual_seed(SEED)
    size = torch.Size(SHAPE).numel()
    inputs = {"noise": torch.randn(SHAPE, generator=generator),
              "push": torch.randn(max(STEPS), size, generator=generator) * 0.5,
              "fresh": torch.randn(3, size, generator=generator)}
    tensors = {name: t.reshape(-1, size) for name, t in inputs.items()}
    for shift in SHIFTS:
        for steps in STEPS:
            for name, scheduler in schedulers(unipc_class, steps, shift).items():
                for part, t in run(scheduler, inputs).items():
                    tensors[f"{name}.shift{shift:g}.steps{steps}.{part}"] = t
    for name, (shift, timesteps) in FEW_STEP.items():
        for part, t in few_step(euler_class, shift, timesteps, inputs).items():
            tensors[f"few-step.{name}.{part}"] = t
    assert all(t.isfinite().all() for t in tensors.values())
    write_tensors(args.out, tensors, {"seed": str(SEED)})
    if args.wan:
        compare_with_wan(args.wan, unipc_class, inputs)
    print(hashlib.sha256(args.out.read_bytes()).hexdigest(), args.out.name)


if __name__ == "__main__":
    main()
