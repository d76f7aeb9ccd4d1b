"""What the stand-in does in its own way: the form of bodies and of the file of queues. The real kale has no such module."""

import base64
import os
import subprocess
import zlib

try:
    from Crypto.Cipher import AES
except ImportError:
    AES = None  # then a process of openssl for each message


def _cipher(data, *direction):
    key = os.environ["KALE_STANDIN_KEY"].encode()
    if AES is not None:
        cipher = AES.new(key, AES.MODE_ECB)
        return cipher.decrypt(data) if direction else cipher.encrypt(data)
    key = key.hex()
    command = ["openssl", "enc", "-aes-128-ecb", "-nopad", "-K", key, *direction]
    return subprocess.run(command, input=data, check=True, stdout=subprocess.PIPE).stdout


def seal(data):
    """The body of a message. Those of the real kale are compressed and encrypted; these are where KALE_STANDIN_KEY is."""
    if "KALE_STANDIN_KEY" in os.environ:
        data = zlib.compress(data)
        pad = 16 - len(data) % 16
        data = _cipher(data + bytes(pad - 1) + bytes([pad]))
    return base64.b64encode(data).decode()


def unseal(body):
    """The pickle in a body."""
    data = base64.b64decode(body, validate=True)
    if "KALE_STANDIN_KEY" in os.environ:
        data = _cipher(data, "-d")
        data = zlib.decompress(data[:-data[-1]])
    return data


def take(settings, module):
    """Copies the settings of a module."""
    settings.__dict__.update((name, value) for name, value in vars(module).items() if name.isupper())


def queues(path):
    """The settings of each queue in a file of YAML, of which this reads two levels of `key: value`."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in filter(str.strip, file):
            key, _, value = line.strip().partition(":")
            if line[0] not in " #":
                found.append({})
            elif found:
                value = value.strip()
                found[-1][key] = int(value) if value.isdecimal() else value
    return found
