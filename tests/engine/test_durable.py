"""The folder of a checkpoint on disks and file systems that do less than usual."""

import errno
import os

import pytest
from pyarrow import fs

from lab.engine.checkpoint import durable
from lab.engine.checkpoint.durable import CheckpointFolder, keep_folder


def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_all_of_them(tmp_path, monkeypatch):
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:3], at))
    folder = CheckpointFolder(tmp_path)
    assert folder.append_if_unchanged("cuts", 0, 0, b"one two three")
    assert folder.append_if_unchanged("cuts", 13, 4, b"four")
    assert folder.read("cuts") == b"one four"


def test_a_file_system_that_keeps_names_by_itself_is_enough_and_a_broken_disk_is_told(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    number = errno.EINVAL
    keep_folder(0)
    number = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        keep_folder(0)


def test_spark_reads_the_same_place_under_a_name_of_its_own(tmp_path):
    assert CheckpointFolder("s3://bucket/s3://odd").spark_uri == "s3a://bucket/s3://odd"
    assert CheckpointFolder("s3a://bucket/a").spark_uri == "s3a://bucket/a"
    assert CheckpointFolder(tmp_path / "x").spark_uri == f"file://{tmp_path}/x"
    assert CheckpointFolder(f"file://{tmp_path}").spark_uri == f"file://{tmp_path}"


def test_an_address_is_a_bucket_and_a_path_in_it(monkeypatch):
    monkeypatch.setattr(durable, "_store", lambda bucket: (f"store of {bucket}", bucket))
    assert CheckpointFolder("s3://bucket/a/b")._place == ("store of bucket", "bucket/a/b")


def test_a_folder_that_changes_while_it_is_listed_is_listed_again(tmp_path, monkeypatch):
    found = iter([["1.json"], ["1.json", "2.json"], ["1.json", "2.json"]])
    monkeypatch.setattr(CheckpointFolder, "_listing", lambda self: next(found))
    assert CheckpointFolder(tmp_path).names() == ["1.json", "2.json"]
    found = iter([["1.json"]])  # the listing of a store is exact
    assert CheckpointFolder("s3://bucket/a").names() == ["1.json"]


def test_a_file_that_is_missing_has_no_size_and_a_folder_made_meanwhile_no_names(tmp_path, monkeypatch):
    assert not CheckpointFolder(tmp_path / "none").has_size_and_ending("cuts", 0, b"")

    def vanish(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(fs, "FileSelector", vanish)
    assert CheckpointFolder(tmp_path).names() == []


def test_a_cut_waits_for_the_disk_only_if_it_is_to_be_kept(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(durable, "keep_content", kept.append)
    folder = CheckpointFolder(tmp_path, power_safe=True)
    assert folder.append_if_unchanged("cuts", 0, 0, b"one") and kept == []
    assert folder.append_if_unchanged("cuts", 3, 3, b"two", kept=True) and len(kept) == 1
