from dragoman.core.memory import LONGEST, MOST, of_short_texts


def test_a_short_text_is_worked_on_once_and_a_long_one_each_time() -> None:
    worked: list[int] = []

    @of_short_texts
    def doubled(text: str, times: int) -> str:
        worked.append(len(text))
        return text * times

    assert [doubled("ab", 2), doubled("ab", 2), doubled("ab", 3)] == ["abab", "abab", "ababab"]
    assert worked == [2, 2]
    long = "a" * (LONGEST + 1)
    assert doubled(long, 1) == doubled(long, 1) == long
    assert worked == [2, 2, LONGEST + 1, LONGEST + 1]


def test_only_so_many_are_kept() -> None:
    worked: list[str] = []

    @of_short_texts
    def noted(text: str) -> None:
        worked.append(text)

    for number in (*range(MOST + 1), 0):
        noted(str(number))
    assert worked[-1] == "0"
