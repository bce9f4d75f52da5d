"""A folder that outlives processes: on a disk, or in an object store with the protocol of S3.

The engine reads and writes its own files in a checkpoint through it: each is written completely or not at all. Spark writes its logs
there itself.

A machine that loses its power forgets what the disk was not made to keep: the content of a file, and its name. A folder that is
`power_safe` keeps no name without its content; who relies on a name, or on what was appended, waits for the disk (`keep_names`, `kept`).
"""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from lab.logs.access import lock_file, make_folder, private_file_opener, unlock_file
from lab.model.formatting import file_named_in_errors

if TYPE_CHECKING:
    from pyarrow import fs

WAY_ON = (  # from a file of a checkpoint that is not as it was written
    "restore the checkpoint, or start with a new one, --checkpoint FOLDER: it reads the logs from their beginning; "
    "alerts that are there come again, with the same alertId"
)
SHARED, STORES = "file://", ("s3://", "s3a://")


class CheckpointFolder:
    """A checkpoint's folder, or one inside it, by path or by URI.

    `file:///mnt/checkpoint` is a folder that several machines share, `s3a://bucket/checkpoint` an object store. Raises
    ValueError for any other URI.

    >>> import tempfile
    >>> folder = CheckpointFolder(tempfile.mkdtemp()) / "rules"
    >>> folder.write("1.json", b"{}")
    >>> folder.names(), folder.read("1.json"), folder.read("2.json")
    (['1.json'], b'{}', None)
    """

    def __init__(self, where: Path | str, power_safe: bool = False):
        self.where, self.power_safe = str(where), power_safe
        if not self.is_on_this_machine and not self.where.startswith((SHARED, *STORES)):
            raise ValueError(
                f"checkpoint {where}: expected a folder, file:///… for one that machines share, or s3a://BUCKET/…"
            )

    def __truediv__(self, name: str) -> "CheckpointFolder":
        return CheckpointFolder(f"{self.where.rstrip('/')}/{name}", self.power_safe)

    def __str__(self) -> str:
        return self.where

    @property
    def is_on_this_machine(self) -> bool:
        """Whether it is on a disk of this machine, as its name says."""
        return "://" not in self.where

    @property
    def is_object_store(self) -> bool:
        """Whether it is in a store of objects, which appear whole."""
        return self.where.startswith(STORES)

    @cached_property
    def path(self) -> Path:
        """The folder, where it is one on a file system."""
        return Path(os.path.abspath(self.where.removeprefix(SHARED)))

    @property
    def spark_uri(self) -> str:
        """The same place as a URI that Spark reads: `file:///…` or `s3a://…`."""
        if self.is_object_store:
            return self.where.replace("s3://", "s3a://", 1)
        return f"{SHARED}{self._place[1]}"

    @cached_property
    def _place(self) -> "tuple[fs.FileSystem, str]":
        from pyarrow import fs

        if self.is_object_store:
            bucket, _, path = self.where.partition("://")[2].partition("/")
            system, root = _store(bucket)
            return system, f"{root}/{path}".rstrip("/")
        return fs.LocalFileSystem(), str(self.path)

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if it is missing."""
        system, folder = self._place
        try:
            with system.open_input_file(f"{folder}/{name}") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes | bytearray) -> None:
        """Writes a file, or replaces it: completely or not at all."""
        system, folder = self._place
        if self.is_object_store:  # an object appears whole when its stream is closed
            with system.open_output_stream(f"{folder}/{name}") as file:
                file.write(data)
            return
        # processes of two hosts may have the same id
        aside = f"{folder}/.{name}.{uuid4().hex}"
        try:
            self._write_local(aside, data)
        except FileNotFoundError:
            self._make()
            self._write_local(aside, data)
        os.replace(aside, f"{folder}/{name}")

    def _make(self) -> None:
        make_folder(self.path)
        if self.power_safe:
            _keep(self.path.parent, keep_folder)

    def _write_local(self, path: str, data: bytes | bytearray) -> None:
        try:
            with file_named_in_errors(path), open(path, "wb", opener=private_file_opener) as file:
                file.write(data)
                if self.power_safe:
                    file.flush()
                    keep_content(file.fileno())
        except OSError:  # a part of it would stay on a full disk
            with suppress(OSError):
                os.unlink(path)
            raise

    def keep_names(self) -> None:
        """Waits until a power failure forgets no file that was written or replaced in this folder."""
        if self.power_safe:
            _keep(self.path, keep_folder)

    def keep_everything(self) -> None:
        """Waits until a power failure forgets nothing that is in this folder, whoever wrote it."""
        for folder, _, names in os.walk(self.path) if self.power_safe else ():
            for name in names:
                with suppress(FileNotFoundError):  # removed meanwhile
                    _keep(f"{folder}/{name}", keep_content)
            _keep(folder, keep_folder)

    def append_if_unchanged(
        self,
        name: str,
        expected_size: int,
        kept_bytes: int,
        data: bytes,
        expected_ending: bytes = b"",
        kept: bool = False,
    ) -> bool:
        """Writes data after the first `kept_bytes` of a file if the file `has_size_and_ending` as expected; returns whether it did.

        `kept`: if it is power-safe, waits until a power failure forgets nothing of the content. Only for a local folder. A file that does not exist has 0 bytes.

        >>> import tempfile
        >>> folder = CheckpointFolder(tempfile.mkdtemp())
        >>> append = folder.append_if_unchanged
        >>> append("cuts", 0, 0, b"one to"), append("cuts", 0, 0, b"two"), append("cuts", 6, 4, b"two")
        (True, False, True)
        >>> folder.read("cuts"), folder.has_size_and_ending("cuts", 7, b"two")
        (b'one two', True)
        >>> append("cuts", 7, 7, b"three", expected_ending=b"one")
        False
        """
        path = f"{self.path}/{name}"
        try:
            file = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            self._make()
            file = private_file_opener(path, os.O_RDWR | os.O_CREAT)
        try:
            lock_file(file)
            if not _has_size_and_ending(file, expected_size, expected_ending):
                return False
            with file_named_in_errors(path):
                os.ftruncate(file, kept_bytes)
                at = kept_bytes
                while data:
                    written = os.pwrite(file, data, at)
                    data, at = data[written:], at + written
                if kept and self.power_safe:
                    keep_content(file)
            return True
        finally:
            unlock_file(file)
            os.close(file)

    def has_size_and_ending(self, name: str, size: int, ending: bytes) -> bool:
        """Whether a file of this machine has `size` bytes and ends with `ending`; False if it is missing."""
        try:
            file = os.open(f"{self.path}/{name}", os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return _has_size_and_ending(file, size, ending)
        finally:
            os.close(file)

    def names(self) -> list[str]:
        """The names of the files, sorted; empty if there is no folder.

        A file system may leave out a name of a folder that changes while it is listed: of a file that is made before another is
        removed, it may show neither. So a folder is listed until two listings are alike. The listing of an object store is exact.
        """
        found = self._listing()
        while not self.is_object_store and (again := self._listing()) != found:
            found = again
        return found

    def _listing(self) -> list[str]:
        from pyarrow import fs

        system, folder = self._place
        try:
            found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        except FileNotFoundError:
            # the folder was made between Arrow's listing and its look whether there is one
            return []
        return sorted(file.base_name for file in found if file.is_file and not file.base_name.startswith("."))

    def remove(self, name: str) -> None:
        """Removes a file; does nothing if it is missing."""
        system, folder = self._place
        try:
            system.delete_file(f"{folder}/{name}")
        except FileNotFoundError:
            pass


def _keep(path: Path | str, wait: Callable[[int], None]) -> None:
    """Opens a file or a folder, and waits for it."""
    opened = os.open(path, os.O_RDONLY)
    try:
        wait(opened)
    finally:
        os.close(opened)


def keep_content(file: int) -> None:
    """Waits until the disk has what was written to an open file, by its descriptor."""
    with _measured_wait():
        getattr(os, "fdatasync", os.fsync)(file)


def keep_folder(folder: int) -> None:
    """Waits until the disk has the names in a folder, by its descriptor."""
    try:
        with _measured_wait():
            os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that keeps them without being asked
            raise


_waited_ms = [0.0]  # for the disk, in this process


@contextmanager
def _measured_wait() -> Iterator[None]:
    begun = time.perf_counter()
    try:
        yield
    finally:
        _waited_ms[0] += 1000 * (time.perf_counter() - begun)


def take_waited_ms() -> int:
    """How long this process has waited for the disk since the last call, in whole ms; the rest is left for the next call."""
    whole = int(_waited_ms[0])
    _waited_ms[0] -= whole
    return whole


def _has_size_and_ending(file: int, size: int, ending: bytes) -> bool:
    return os.fstat(file).st_size == size and os.pread(file, len(ending), size - len(ending)) == ending


@lru_cache(maxsize=8)
def _store(bucket: str) -> "tuple[fs.FileSystem, str]":
    """An object store as the environment describes it: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and so on."""
    from pyarrow import fs

    # a small object is one request, not three
    return fs.FileSystem.from_uri(f"s3://{bucket}?allow_delayed_open=true")
