"""The command line itself: options given twice, values of the wrong type, the help page."""

import pytest
import typer

from dpgm.cli.app import app, load_commands, run


def _options():
    """Every option of every command, as (words of the command, option)."""
    load_commands()
    pending, found = [((), typer.main.get_command(app))], []
    while pending:
        words, command = pending.pop()
        pending += [((*words, name), one) for name, one in getattr(command, "commands", {}).items()]
        if words and not hasattr(command, "commands"):
            found += [(words, one) for one in command.params if one.param_type_name == "option"]
    return found


OPTIONS = _options()


def _value(option):
    return [] if option.is_flag else ["1"]


def _name(pair):
    return f"{' '.join(pair[0])} {pair[1].opts[0]}"


def test_all_commands_are_tried():
    assert {words[0] for words, _ in OPTIONS} >= {"fit", "plan", "inspect", "sample", "evaluate", "ledger", "audit"}
    assert {one.opts[0] for _, one in OPTIONS if one.multiple} >= {"--missing", "--where", "--drop", "--kind"}


@pytest.mark.parametrize("pair", [pair for pair in OPTIONS if not pair[1].multiple], ids=_name)
def test_an_option_given_twice_is_refused_whatever_its_spelling(capsys, pair):
    words, option = pair
    spellings = [*option.opts, *option.secondary_opts]
    for second in spellings:
        given = [*words, spellings[0], *_value(option), second, *_value(option)]
        assert run(given) == 2
        assert "is given 2 times; give it once." in capsys.readouterr().err


@pytest.mark.parametrize("pair", [pair for pair in OPTIONS if pair[1].multiple], ids=_name)
def test_options_of_several_values_stay(capsys, pair):
    words, option = pair
    run([*words, option.opts[0], "a", option.opts[0], "b"])  # arguments are missing
    assert "times" not in capsys.readouterr().err


def test_nothing_is_spent_on_the_last_of_two_budgets(data, tmp_path, capsys):
    out = tmp_path / "release"
    assert run(["fit", str(data), "--discover", "--epsilon", "1", "--epsilon=5", "--out", str(out)]) == 2
    assert "--epsilon is given 2 times" in capsys.readouterr().err
    assert not list(tmp_path.glob("release*"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["plan", "--epsilon", "one"], "--epsilon must be a number; got 'one'."),
        (["fit", "x.csv", "--seed", "1.5"], "--seed must be a whole number; got '1.5'."),
        (["plan", "--epsilon", "1"], "--records is missing"),
        (["fit"], "`--out` is missing"),
        (["simulate", "village", "--out", "x.csv"], "'village' is not one of 'transit', 'cdr'"),
    ],
)
def test_wrong_values_are_refused_in_words_of_dpgm(capsys, given, said):
    assert run(given) == 2
    error = capsys.readouterr().err
    assert said in error
    for foreign in ("Input should be", "unable to parse", "Value error"):
        assert foreign not in error


@pytest.mark.parametrize("command", [[], ["fit"], ["sample"], ["ledger"], ["ledger", "show"]])
def test_flags_have_no_type_in_help(capsys, command):
    assert run([*command, "--help"]) == 0
    page = capsys.readouterr().out
    assert "--help" in page
    assert "<bool>" not in page
