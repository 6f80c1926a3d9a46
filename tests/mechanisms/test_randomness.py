import builtins
import copy
import os
import pickle
import threading

import numpy as np
import pytest
import torch
from scipy import stats

from dpgm.errors import DpgmError, UsageError
from dpgm.mechanisms import randomness
from dpgm.mechanisms.randomness import AesWords, Randomness, SeededRandomness, SystemRandomness
from dpgm.mechanisms.rounded_gaussian import rounded_gaussian
from dpgm.mechanisms.sampling import Coins


@pytest.fixture
def without_cryptography(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)


def make(kind):
    return SeededRandomness(7) if kind == "seeded" else SystemRandomness()


@pytest.fixture(params=["aes", "philox", "seeded"])
def source(request):
    if request.param == "philox":
        request.getfixturevalue("without_cryptography")
    return make(request.param)


def test_the_name_says_what_stands_behind(source):
    assert source.names_used == set()
    source.words(1)
    assert source.names_used == {source.name}
    assert source.name in repr(source)
    assert ("NOT PRIVATE" in source.name) == (not source.private)


def test_the_fallback_is_named(without_cryptography):
    assert SystemRandomness().name.startswith("Philox4x64-10")


def test_aes_is_the_default():
    assert SystemRandomness().name.startswith("AES-256-CTR")


def test_words_are_uniform_and_never_repeat(source):
    words = source.words(200_001)
    assert len(np.unique(words)) == len(words)
    counts = np.bincount((words >> np.uint64(56)).astype(int), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-7
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(0)
    assert np.all(np.abs(bits - len(words) / 2) < 6 * np.sqrt(len(words) / 4))
    assert not np.intersect1d(words, source.words(1000)).size


def test_fill_handles_every_size(source):
    for size in (0, 1, 2, 3, 5, 32768, 32770, 100_003):
        out = np.zeros(size + 1, dtype=np.uint64)
        source.fill(out[:size])
        assert np.all(out[:size] != 0)
        assert out[size] == 0


def test_aes_words_are_the_key_stream_of_counter_mode():
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes(range(64))
    generator = AesWords(key)
    out = np.empty(70_001, dtype=np.uint64)
    generator.fill(out)
    # GCM counts from 2 after its nonce of 96 bits.
    cipher = Cipher(algorithms.AES(key[:32]), modes.CTR((2).to_bytes(16, "big"))).encryptor()
    assert out.tobytes() == cipher.update(bytes(out.nbytes))
    block = generator.at(1, 2, [3, 4], 8, 4)
    counter = np.array([(1 << 48) | 2, (4 << 32) | 2], dtype="<u8").tobytes()
    first = Cipher(algorithms.AES(key[32:]), modes.ECB()).encryptor().update(counter)
    assert block[1, :2].tobytes() == first


def test_aes_words_never_repeat_when_a_nonce_is_used_up(monkeypatch):
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    monkeypatch.setattr(randomness, "STREAM_BYTES", 100)
    key, out = bytes(range(64)), np.empty((7, 5), dtype=np.uint64)
    generator = AesWords(key)
    for part in out:
        generator.fill(part)
    assert len(np.unique(out)) == out.size
    # 40 bytes a request: two requests a nonce.
    for number, pair in enumerate((out[:2], out[2:4], out[4:6], out[6:])):
        first = (number << 32 | 2).to_bytes(16, "big")
        cipher = Cipher(algorithms.AES(key[:32]), modes.CTR(first)).encryptor()
        assert pair.tobytes() == cipher.update(bytes(pair.nbytes))


def test_a_stream_depends_on_its_address_alone(source):
    one = source.stream(1, 2, 3)
    begun = np.concatenate([one.words(3), one.words(1), one.words(10)])
    source.words(5)
    assert np.array_equal(begun, source.stream(1, 2, 3).words(14))
    assert np.array_equal(begun[:12], source.block_words(1, 2, [9, 3], 12)[1])
    assert np.array_equal(begun[8:12], source.block_words(1, 2, [3], 4, skip=8)[0])
    for other in [(1, 2, 4), (1, 3, 3), (2, 2, 3), (1, 2), (3,)]:
        assert not np.intersect1d(begun, source.stream(*other).words(14)).size
    assert source.block_words(1, 2, [], 4).shape == (0, 4)


@pytest.mark.parametrize("address", [(2**16, 0, [0]), (0, 2**48, [0]), (0, 0, [2**32]), (0, -1, [0])])
def test_addresses_out_of_range_are_refused(address):
    with pytest.raises(DpgmError, match="out of range"):
        SystemRandomness().block_words(*address, 4)


def test_unaligned_addressed_words_are_refused():
    with pytest.raises(DpgmError, match="multiples of 4"):
        SystemRandomness().block_words(0, 0, [0], 3)


def test_two_system_sources_share_nothing():
    one, other = SystemRandomness(), SystemRandomness()
    assert not np.intersect1d(one.words(1000), other.words(1000)).size
    assert not np.intersect1d(one.stream(1, 1, 1).words(100), other.stream(1, 1, 1).words(100)).size


def test_equal_seeds_agree_and_others_do_not():
    one, same, other = SeededRandomness(1), SeededRandomness(1), SeededRandomness(2)
    words = one.words(100)
    assert np.array_equal(words, same.words(100))
    assert not np.intersect1d(words, other.words(100)).size
    draws = torch.rand(4, generator=one.draws())
    assert torch.equal(draws, torch.rand(4, generator=same.draws()))
    assert not torch.equal(draws, torch.rand(4, generator=one.draws()))


def test_public_draws_are_fresh_each_time():
    source = SystemRandomness()
    assert not torch.equal(torch.rand(4, generator=source.draws()), torch.rand(4, generator=source.draws()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_draws_other_noise_and_coins(source):
    source.words(1)
    source.stream(1, 0, 0).words(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        os.write(writing, source.words(4).tobytes() + source.stream(1, 0, 0).words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reading, 64), dtype=np.uint64)
    os.close(reading), os.close(writing)
    ours = np.concatenate([source.words(4), source.stream(1, 0, 0).words(4)])
    assert np.intersect1d(ours, theirs).size == (0 if source.private else 8)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_with_the_number_of_its_parent_repeats_nothing(monkeypatch):
    """As in a process namespace of its own: neither words and noise, nor coins that the parent drew ahead."""
    source = SystemRandomness()
    coins = Coins(10_000, source)

    def drawn(step):
        sample, noise = coins.sample(step, 0.01), rounded_gaussian(24, 2.0**40, source)
        return [
            source.words(8).tobytes(),
            source.stream(1, 9, 9).words(8).tobytes(),
            sample.tobytes(),
            noise.tobytes(),
        ]

    drawn(0)
    number = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: number)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        os.write(writing, pickle.dumps(drawn(1)))
        os._exit(0)
    os.waitpid(child, 0)
    theirs, ours = pickle.loads(os.read(reading, 1 << 16)), drawn(1)
    os.close(reading), os.close(writing)
    assert [
        name
        for name, one, other in zip(["words", "stream", "coins", "noise"], ours, theirs, strict=True)
        if one == other
    ] == []


def test_the_child_of_a_fork_is_noticed_by_its_process_number(monkeypatch):
    source = SystemRandomness()
    before = source.stream(1, 0, 0).words(4)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not np.intersect1d(before, source.stream(1, 0, 0).words(4)).size


def test_a_lock_held_at_the_fork_is_open_in_the_child(monkeypatch):
    source = SystemRandomness()
    holder = threading.Thread(target=source._lock.acquire)
    holder.start()
    holder.join()
    monkeypatch.setattr(randomness, "_forks", randomness._forks)
    randomness._begin_child()
    assert source._lock.acquire(blocking=False)


def test_threads_never_see_the_same_words(source):
    drawn = []
    threads = [threading.Thread(target=lambda: drawn.append(source.words(20_000))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(np.unique(np.concatenate(drawn))) == 160_000


def test_state_never_leaves(source):
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(DpgmError, match="cannot be copied or stored"):
            leave(source)


def test_runs_are_numbered(source):
    assert [source.new_run() for _ in range(3)] == [0, 1, 2]


def test_noise_of_a_device_comes_from_one_named_generator(source):
    generator = source.device_noise("cpu")
    assert generator is source.device_noise(torch.device("cpu"))
    (name,) = source.names_used
    assert ("accelerator" in name) == source.private


def test_a_source_must_say_where_its_key_comes_from():
    class Keyless(Randomness):
        def _generator(self, key):
            return AesWords(key)

    class WithoutWords(Randomness):
        def _entropy(self, purpose, count):
            return bytes(count)

    for incomplete in (Randomness, Keyless, WithoutWords):
        with pytest.raises(TypeError, match="abstract"):
            incomplete()


@pytest.mark.parametrize("seed", [-1, 1.5, True, None])
def test_a_seed_is_a_whole_number_that_is_not_negative(seed):
    with pytest.raises(UsageError, match="`seed` must be a whole number"):
        SeededRandomness(seed)
