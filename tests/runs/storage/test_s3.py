"""S3 by moto's server on loopback; needs an environment with s3fs and moto[s3,server], which CI's has not."""

import pytest

pytestmark = pytest.mark.slow
s3fs, moto = pytest.importorskip("s3fs"), pytest.importorskip("moto.server")


@pytest.fixture
def bucket(monkeypatch):
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (("ACCESS_KEY_ID", "testing"), ("SECRET_ACCESS_KEY", "testing-secret")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    files = s3fs.S3FileSystem(skip_instance_cache=True)
    files.mkdir("clinic")
    yield files
    server.stop()


def test_images_in_a_bucket(bucket, tmp_path):
    from memorisk.runs.errors import InputError
    from memorisk.runs.storage.mirror import local_source

    for name in ("a/1.png", "a/2 #?.png", "b/é.png"):
        bucket.pipe_file(f"clinic/skin/{name}", name.encode())
    bucket.pipe_file("clinic/skin/empty/", b"")  # what some programs write for a folder
    copy = local_source("s3://clinic/skin", tmp_path)
    names = sorted(p.relative_to(copy).as_posix() for p in copy.rglob("*") if p.is_file())
    assert names == ["a/1.png", "a/2 #?.png", "b/é.png"]
    bucket.pipe_file("clinic/skin/a/1.png", b"A/1.PNG")  # as many bytes
    assert (local_source("s3://clinic/skin", tmp_path) / "a" / "1.png").read_bytes() == b"A/1.PNG"
    bucket.pipe_file("clinic/skin/../../evil.png", b"x")
    with pytest.raises(InputError, match="lead out of the folder"):
        local_source("s3://clinic/skin", tmp_path)
