"""Where the weights of a transformer came from: exactly the files that diffusers read.

diffusers drops tensors that its model does not know, such as gates, and forgets which files it read. So from the import
of this module on, WanTransformer3DModel remembers them. A model that was loaded before is searched for by the path that
its config keeps: several candidates are an error, and a warning names each place that could not be searched.
"""

import functools
import inspect
import json
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from diffusers import WanTransformer3DModel

from vsa_torch.diffusers import _checkpoints
from vsa_torch.diffusers._checkpoints import Gates


@dataclass(frozen=True)
class Origin:
    """What a transformer was loaded from: files, or gates that were in a state dict; or what could not be found."""

    files: tuple = ()
    marks: tuple = ()  # of the files when they were read, see _mark
    tensors: dict = field(default_factory=dict)
    unknown: str = ""


def gates_of(transformer):
    """The gates in what the transformer was loaded from."""
    origin = transformer.__dict__.get("_vsa_origin")
    if origin is None:
        return _searched(transformer)
    if origin.unknown:
        _warn(origin.unknown)
        return Gates()
    missing = [file for file in origin.files if not os.path.isfile(file)]
    if missing:
        _warn(f"{transformer.config.get('_name_or_path') or missing[0]} is neither a local folder nor in the cache of "
              f"downloads any more ({missing[0]} is gone)")
        return Gates()
    changed = [file for file, mark in zip(origin.files, origin.marks) if _mark(file) != mark]
    if changed:
        raise ValueError(f"[enable_vsa] gates: expected the file that the model was loaded from, got another one since: "
                         f"{changed[0]}; pass gates= with the file or the state dict that they are in, or None")
    gates = _checkpoints.from_files(origin.files) if origin.files else _checkpoints.from_tensors(origin.tensors)
    if not gates.layers:
        if transformer.config.get(_checkpoints.TILE_KEY):
            warnings.warn("[enable_vsa] gates: the model's config says that it was saved with gates, but there are none in "
                          f"{' and '.join(origin.files) or 'the state dict'}; pass gates= if they are elsewhere, as "
                          "saving a model that was loaded without enable_vsa loses them", stacklevel=5)
        transformer._vsa_origin = Origin()  # has no gates, also if the files are written again, as by training
    return _with_tile_of(transformer, gates)


def remember():
    """Makes WanTransformer3DModel keep an Origin of every model that it loads."""
    if hasattr(WanTransformer3DModel, "_vsa_remembers"):
        return
    WanTransformer3DModel._vsa_remembers = True
    load, single = WanTransformer3DModel._load_pretrained_model, WanTransformer3DModel.from_single_file
    make = WanTransformer3DModel.from_config
    arguments = inspect.signature(load)

    @functools.wraps(load.__func__)
    def _load_pretrained_model(cls, *args, **kwargs):
        # Read before the call, which may replace it by a state dict. Versions of diffusers without it: see _searched.
        files = arguments.bind(*args, **kwargs).arguments.get("resolved_model_file")
        files = [] if files is None else list(map(str, files if isinstance(files, list) else [files]))
        marks = list(map(_mark, files))
        loaded = load.__func__(cls, *args, **kwargs)
        loaded[0].__dict__.pop("_vsa_origin", None)  # set by from_config, which made the model
        if files:
            loaded[0]._vsa_origin = Origin(files=tuple(files), marks=tuple(marks))
        return loaded

    @functools.wraps(make.__func__)
    def from_config(cls, *args, **kwargs):
        made = make.__func__(cls, *args, **kwargs)
        model = made[0] if isinstance(made, tuple) else made
        path = model.config.get("_name_or_path")
        if path:
            model._vsa_origin = Origin(unknown=f"the model was made from the config of {path}, and not loaded from there")
        return made

    @functools.wraps(single.__func__)
    def from_single_file(cls, pretrained_model_link_or_path_or_dict=None, **kwargs):
        source = pretrained_model_link_or_path_or_dict or kwargs.get("pretrained_model_link_or_path")
        # Taken before the conversion, in which diffusers removes tensors from the state dict.
        tensors = _checkpoints.gates_among(source) if isinstance(source, dict) else {}
        model = single.__func__(cls, pretrained_model_link_or_path_or_dict, **kwargs)
        model._vsa_origin = Origin(tensors=tensors) if isinstance(source, dict) else _file_of(source, kwargs)
        return model

    WanTransformer3DModel._load_pretrained_model = classmethod(_load_pretrained_model)
    WanTransformer3DModel.from_single_file = classmethod(from_single_file)
    WanTransformer3DModel.from_config = classmethod(from_config)


def _file_of(source, options):
    """The file that from_single_file read: its path, or a download by address."""
    if os.path.isfile(source):
        return Origin(files=(str(source),), marks=(_mark(source),))
    from diffusers.loaders.single_file_utils import _extract_repo_id_and_weights_name
    from huggingface_hub import try_to_load_from_cache

    repository, name = _extract_repo_id_and_weights_name(source)
    file = try_to_load_from_cache(repository, name, cache_dir=options.get("cache_dir"),
                                  revision=options.get("revision"))
    if isinstance(file, str):
        return Origin(files=(file,), marks=(_mark(file),))
    return Origin(unknown=f"{source}, from which the model was loaded, is not in the cache of downloads")


def _mark(file):
    """A value that changes when the file is written again; None if there is no file."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _searched(transformer):
    """The gates of a model that was loaded before this module, or that was never loaded."""
    config = transformer.config
    path = config.get("_name_or_path") or ""
    if not path:
        if "_class_name" in config:  # its config was loaded
            _warn("where the model was loaded from is not known, since vsa_torch.diffusers was imported later")
        return Gates()
    root = Path(path)
    folders = _model_folders(root) if root.is_dir() else _download(path)
    if not folders:
        _warn(f"{path} is neither a local folder with weights nor in the cache of downloads")
    checkpoints = {f"{folder}/{name}": files for folder in folders
                   for name, files in _checkpoints.checkpoints_of(folder).items()}
    found = {name: gates for name, files in checkpoints.items() if (gates := _checkpoints.from_files(files)).layers}
    if found and len(checkpoints) > 1:
        raise ValueError(f"[enable_vsa] gates: expected one checkpoint in {path}, got {' and '.join(checkpoints)}; "
                         "import vsa_torch.diffusers before the model is loaded, or pass gates= with the file or the index of shards")
    return _with_tile_of(transformer, next(iter(found.values()), Gates()))


def _model_folders(root):
    """The folder itself if it has weights; else the folders in it that hold a Wan transformer."""
    if _checkpoints.files_of(root):
        return [root]
    return [file.parent for file in sorted(root.glob("*/config.json"))
            if json.loads(file.read_text()).get("_class_name") == "WanTransformer3DModel"
            and _checkpoints.files_of(file.parent)]


def _download(repository):
    """The folders of a download of main; nothing is downloaded here."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return _model_folders(Path(snapshot_download(repository, local_files_only=True)))
    except (HFValidationError, LocalEntryNotFoundError):
        return []


def _with_tile_of(transformer, gates):
    """The gates, with the tile of the model's config if the files of the gates name none."""
    if not gates.layers or gates.tile_shape is not None:
        return gates
    return Gates(gates.layers, _checkpoints.tile_of(transformer.config))


def _warn(what):
    warnings.warn(f"[enable_vsa] gates: {what}, so it was not searched for to_gate_compress; pass gates= if the "
                  "checkpoint was trained with VSA", stacklevel=6)
