"""The sources and the targets of recorded experience, as the settings name them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kernel_rllib.errors import ConfigError, DataError
from kernel_rllib.offline import hdf5_files
from kernel_rllib.offline.episode_reader import EpisodeCollection, EpisodeReader
from kernel_rllib.offline.files import found_files
from kernel_rllib.offline.input_reader import InputReader, OutputWriter
from kernel_rllib.offline.inputs import MixedInput, ShuffledInput
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.json_reader import JsonReader
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.offline.minari_files import (
    GroupedEpisodes,
    MinariSpaces,
    has_groups,
    metadata_beside,
    minari_episodes,
    minari_folder,
)
from kernel_rllib.offline.parquet_files import ENDING, ParquetReader, ParquetWriter

SAMPLER, DATASET = "sampler", "dataset"


@dataclass(frozen=True)
class ReaderMaker:
    """Makes the reader that settings describe. It is sent to where runners are.

    Attributes:
        source: The source that `input_` names.
        shuffle_buffer_size: The number of batches that are mixed; 0: none.
    """

    source: Any
    shuffle_buffer_size: int = 0

    def __call__(self, context: IOContext) -> InputReader:
        """Return a reader for a place.

        Raises:
            DataError: If there are no files.
            ConfigError: If the source names nothing that reads.
        """
        reader = _reader(self.source, context)
        if not self.shuffle_buffer_size:
            return reader
        return ShuffledInput(reader, self.shuffle_buffer_size, _stream(context, 1))


def reader_maker(config: Any) -> ReaderMaker | None:
    """Return the function that makes the readers of a config; None where experience comes from the environment."""
    return None if config.input_ == SAMPLER else ReaderMaker(config.input_, config.shuffle_buffer_size)


def writer_maker(config: Any, log_dir: str) -> Callable[[IOContext], OutputWriter] | None:
    """Return the function that makes the writer of a config, given its context; None where nothing is written."""
    if config.output is None:
        return None
    if callable(config.output):
        made: Callable[[IOContext], OutputWriter] = config.output
        return made
    path = config.output_config.get("path", config.output) if config.output == DATASET else config.output
    form = config.output_config.get("format", "json")
    if form not in ("json", "parquet"):
        raise DataError(f"output_config has the format {form!r}: take 'json' or 'parquet'")
    if form == "parquet":
        return partial(_parquet_writer, log_dir if path == "logdir" else path)
    return partial(
        _json_writer,
        log_dir if path == "logdir" else path,
        config.output_max_file_size,
        tuple(config.output_compress_columns),
    )


def _json_writer(path: str, most: int | None, packed: Sequence[str], context: IOContext) -> OutputWriter:
    return JsonWriter(path, context, most, packed)


def _parquet_writer(path: str, context: IOContext) -> OutputWriter:
    return ParquetWriter(path, context)


def _reader(source: Any, context: IOContext) -> InputReader:
    if isinstance(source, Mapping):
        names = list(source)
        readers = [_reader(name, context) for name in names]
        return MixedInput(readers, [float(source[name]) for name in names], _stream(context, 0))
    if source == SAMPLER:
        return context.default_sampler_input()
    if source == DATASET:
        return _dataset(context)
    if isinstance(source, str) and (found := _imported(source)) is not None:
        source = found
    if callable(source):
        made: InputReader = source(context)
        return made
    return _file_reader(source, context)


def _file_reader(source: str | Sequence[str], context: IOContext) -> InputReader:
    datasets = [minari_folder(each) for each in ([source] if isinstance(source, str) else source)]
    if all(datasets):
        return EpisodeReader([minari_episodes(folder) for folder in datasets if folder], context)
    files = found_files(source, (ENDING, *hdf5_files.ENDINGS))
    if files and all(path.endswith(ENDING) for path in files):
        return ParquetReader(source, context)
    if files and all(path.endswith(hdf5_files.ENDINGS) for path in files):
        most = context.input_config.get("max_episode_steps")
        return EpisodeReader([_hdf5_episodes(path, most) for path in files], context)
    return JsonReader(source, context)


def _hdf5_episodes(path: str, most: int | None) -> EpisodeCollection:
    """Return the episodes of a file of HDF5, of Minari or of D4RL."""
    file = hdf5_files.open_hdf5(path)
    if has_groups(file):
        return GroupedEpisodes(path, file, MinariSpaces(metadata_beside(path)))
    return hdf5_files.FlatEpisodes(path, file, most)


def _dataset(context: IOContext) -> InputReader:
    given = context.input_config
    paths = given.get("paths", given.get("path"))
    if not paths:
        raise ConfigError(
            f"input_='dataset' reads what input_config names, and that is {dict(given)!r}: give it \"paths\", and "
            '"format", which is "json"'
        )
    return _reader(paths, context)


def _imported(source: str) -> Any:
    """Return the class or function that a dotted path names; None for what is no such path, or a file."""
    module, _, name = source.rpartition(".")
    if not module or not all(part.isidentifier() for part in source.split(".")) or os.path.exists(source):
        return None
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"input_={source!r} was taken for the dotted path of a reader, and that can't be imported ({error}): name "
            "a folder or files as ./NAME or /NAME"
        ) from None


def _stream(context: IOContext, purpose: int) -> np.random.Generator:
    return np.random.default_rng(None if context.seed is None else (context.seed, purpose))
