"""Stages as text for everyone: what stands in the page, what was left out, nothing unescaped."""

from __future__ import annotations

import html
import random
import re
from dataclasses import dataclass, field

import pytest

from attnlab_helpers.plots import StagesView, stages
from attnlab_helpers.plots.stages.highlight import machine_html, source_html
from attnlab_helpers.plots.stages.listings import labels

SOURCE = """@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):  # one block
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x, mask=i < n)
"""


@dataclass
class Fake:
    """What a compiled kernel has, as far as the picture needs it."""

    target: str = "9.0"
    name: str = "add"
    language: str = "Triton"
    source: str = SOURCE
    stages: dict[str, str] = field(default_factory=dict)
    counts: dict[str, object] = field(
        default_factory=lambda: {"global_loads": 4, "registers": 1234}
    )
    maps: dict[str, list[int | None]] = field(default_factory=dict)

    @property
    def provenance(self) -> str:
        return f"compiled here for compute capability {self.target}"

    def lines(self, stage: str) -> list[int | None]:
        return self.maps[stage]


def fake(target: str = "9.0", **more) -> Fake:
    """Random machine code: TTIR is the same for all targets, PTX and SASS are not."""
    draw = random.Random(target + str(more))
    ptx = [f".target sm_{target}", "ld.global.v4.b32 {%r1}, [%rd1];", "add.s32 %r2, %r1, 1;"]
    sass = [f"IADD3 R{draw.randrange(99)}, R1, R2, RZ ;" for _ in range(draw.randrange(5, 40))]
    made = Fake(
        target,
        stages={"TTIR": "%0 = tt.load %p\ntt.store %p, %0", "PTX": "\n".join(ptx) + "\n",
                "SASS": "\n".join(["LDG.E.128 R4, [R2.64] ;", *sass])},
        maps={"TTIR": [4, 5], "PTX": [None, 4, 3],
              "SASS": [4, *(draw.choice([None, 3, 4, 5]) for _ in sass)]},
    )  # fmt: skip
    for name, value in more.items():
        setattr(made, name, value)
    return made


def page(*compiled: Fake, **more) -> str:
    return stages(*compiled, **more)._repr_mimebundle_()["text/html"]


def without_scripts(text: str) -> str:
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def pres(text: str) -> list[tuple[str, str]]:
    """The opening tag and the text, unescaped and without marks, of each <pre>."""
    found = re.findall(r"(<pre[^>]*>)(.*?)</pre>", text, flags=re.DOTALL)
    return [(tag, html.unescape(re.sub(r"</?(b|i|span)[^>]*>", "", body))) for tag, body in found]


def test_each_machine_line_has_its_source_line_in_front() -> None:
    kernel = fake()
    (body,) = [text for tag, text in pres(page(kernel)) if 'data-stage="SASS"' in tag]
    rows = [line.split("| ", 1) for line in body.split("\n")]
    assert [text for _, text in rows] == kernel.stages["SASS"].split("\n")
    assert [int(number) if number.strip() else None for number, _ in rows] == kernel.maps["SASS"]


def test_the_source_stands_there_with_line_numbers() -> None:
    (body,) = [text for tag, text in pres(page(fake())) if 'data-stage=""' in tag]
    for number, line in enumerate(SOURCE.rstrip().split("\n"), 1):
        assert f"{number}| {line}" in body.split("\n")


def test_one_stage_is_open_and_the_others_are_folded() -> None:
    text = without_scripts(page(fake("8.0"), fake("9.0")))
    folded = "".join(re.findall(r"<details>.*?</details>", text, flags=re.DOTALL))
    unfolded = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert unfolded.count("<pre") == 2 and 'data-of="0" data-stage="SASS"' in unfolded
    assert 'data-of="1" data-stage="SASS"' in folded and 'data-of="0" data-stage="PTX"' in folded
    assert 'data-of="0" data-stage="PTX"' in re.sub(
        r"<details>.*?</details>", "", page(fake("8.0"), stage="PTX"), flags=re.DOTALL
    )


def test_a_text_that_targets_share_is_in_the_page_once() -> None:
    text = page(fake("8.0"), fake("9.0"), fake("10.0"))
    assert text.count("tl.program_id") == text.count("%0 = <b>tt.load</b> %p") == 1
    assert 'data-of="0 1 2" data-stage="TTIR"' in text
    # The same text from other source lines is not the same.
    other = fake("9.0")
    other.maps["TTIR"] = [3, 5]
    assert page(fake("8.0"), other).count("%0 = <b>tt.load</b> %p") == 2


def test_no_text_of_others_becomes_markup() -> None:
    evil = "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>\r<b>&lt;\0"
    kernel = fake(
        name=evil, source=evil, language=evil, counts={evil: evil},
        stages={"PTX": f"{evil}\n{evil}", evil: evil}, maps={"PTX": [1, None], evil: [1]},
    )  # fmt: skip
    text = page(kernel, fake("8.0"), source_title=evil)
    assert "<img" not in text
    assert not any("\r" in body or "\0" in body for _, body in pres(text))
    assert text.count("<script") == text.count("</script>") == 2
    data = re.search(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)[1]
    assert "<" not in data and "\\u003c" in data
    assert text.count("<pre") == text.count("</pre>")


def test_a_long_stage_is_cut_and_the_figure_says_so() -> None:
    lines = random.randrange(402, 900)
    kernel = fake(
        stages={"LLVM IR": "\n".join(f"%{n} = add" for n in range(lines)), "PTX": "ret;"},
        maps={"LLVM IR": [1] * lines, "PTX": [1]},
    )  # fmt: skip
    shown = stages(kernel)
    text = shown._repr_mimebundle_()["text/html"]
    assert "%399 = add" in text and "%400 = add" not in text
    sentence = f"The first 400 lines; {lines - 400} lines more are in .stages['LLVM IR']."
    assert html.escape(sentence) in without_scripts(text)
    assert shown.notes == (f"LLVM IR (9.0): {sentence}",)
    assert "%400 = add" in page(kernel, most_lines=1000)
    assert stages(fake()).notes == ()


def test_the_counts_stand_in_the_page_and_in_plain_text() -> None:
    text = str(stages(fake("8.0"), fake("9.0", counts={"wgmma": 8})))
    row = next(line for line in text.split("\n") if line.startswith("registers"))
    assert row.split() == ["registers", "1,234", "-"]
    assert "wgmma" in text and "compiled here for compute capability 8.0" in text
    assert re.search(r"^SASS +\d+ +\d+$", text, re.MULTILINE)
    assert "<td>global loads</td>" in re.sub(r"<td[^>]*>", "<td>", page(fake()))
    table = stages(fake(counts={"loads": {"32 bit": 3, "128 bit": 1}})).table
    assert table.iloc[0].tolist() == ["loads", "32 bit: 3, 128 bit: 1"]


def test_rows_that_are_zero_everywhere_are_not_shown() -> None:
    shown = stages(
        fake("8.0", counts={"mma": 0, "wgmma": 0, "tma": "none"}),
        fake("9.0", counts={"mma": 0, "wgmma": 8, "tma": 1}),
    )
    assert "wgmma" in str(shown) and "tma" in str(shown)
    assert not re.search(r"\bmma", str(shown))
    assert shown.table["count"].tolist() == ["mma", "wgmma", "tma"]


def test_what_is_missing_is_said() -> None:
    kernel = fake(notes=("SASS is left out: no disassembler.",))
    assert "no disassembler" in str(stages(kernel))
    assert "no disassembler" in without_scripts(page(kernel))


def test_a_real_kernel_of_the_compiler_is_shown() -> None:
    compiler = pytest.importorskip("attnlab_helpers.compiler")
    source = (
        "__global__ void add(float* x, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) x[i] += 1.0f;\n"
        "}\n"
    )
    try:
        kernel = compiler.compile_cuda(source, "9.0")
    except ImportError as missing:
        pytest.skip(str(missing))
    shown = stages(kernel, stage="PTX")
    (body,) = [text for tag, text in pres(shown._repr_mimebundle_()["text/html"]) if "PTX" in tag]
    (load,) = [line for line in body.split("\n") if "ld.global" in line]
    assert load.split("|")[0].strip() == "3"
    assert "registers" in str(shown) and "provenance" not in shown.table["count"].tolist()


def test_labels_are_what_tells_kernels_apart() -> None:
    assert labels([fake("8.0"), fake("9.0")]) == ["8.0", "9.0"]
    assert labels([fake(), fake(language="CUDA C++")]) == ["Triton", "CUDA C++"]
    assert labels([fake(), fake()]) == ["9.0", "9.0 (2)"]
    three = labels([fake("8.0"), fake("9.0", name="mul"), fake("9.0", name="mul")])
    assert three == ["add, 8.0", "mul, 9.0", "mul, 9.0 (2)"]


@pytest.mark.parametrize("language", ["Triton", "CUDA C++", "another"])
def test_marked_source_keeps_its_text_and_its_lines(language) -> None:
    draw = random.Random(language)
    words = ['"""', "def", "x<y", "//", "#", "/*", "&amp;", "'a", "\n", "  ", "for", "1.5", "é"]
    for _ in range(60):
        lines = "".join(draw.choice(words) for _ in range(30)).split("\n")
        marked = source_html(lines, language)
        assert [html.unescape(re.sub(r"</?(b|i|span)[^>]*>", "", line)) for line in marked] == lines
        for line in marked:  # no mark reaches over a line's end
            assert len(re.findall(r"<\w", line)) == line.count("</")


def test_without_pygments_the_source_is_plain(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert source_html(["def f(): a < b"], "Triton") == ["def f(): a &lt; b"]


@pytest.mark.parametrize(
    "stage, line, bold",
    [
        ("SASS", "@!P0 LDG.E.128 R4, desc[UR4][R2.64] ;", ["LDG.E.128"]),
        ("SASS", "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24 ;", ["HGMMA.64x128x16.F32.BF16"]),
        ("SASS", "IADD3 R4, R4, 0x1, RZ ;", []),
        ("PTX", "@%p1 ld.global.v4.b32 { %r1 }, [ %rd1 + 0 ];", ["ld.global.v4.b32"]),
        ("PTX", "ld.param.b64 %rd25, [add_param_0];", []),
        ("PTX", "wgmma.mma_async.sync.aligned.m64n8k16", ["wgmma.mma_async.sync.aligned.m64n8k16"]),
        ("TTGIR", "%a = ttg.local_load %b", ["ttg.local_load"]),
        ("LLVM IR", "load <4 x i32>", []),
    ],
)  # fmt: skip
def test_what_matters_is_bold(stage, line, bold) -> None:
    (marked,) = machine_html([line], stage)
    assert [html.unescape(text) for text in re.findall("<b>(.*?)</b>", marked)] == bold


def test_wrong_arguments_are_refused_with_what_is_possible() -> None:
    with pytest.raises(ValueError, match="at least one"):
        stages()
    with pytest.raises(TypeError, match=r"a str has no \.name"):
        stages("add")
    with pytest.raises(ValueError, match="there are TTIR, PTX, SASS"):
        stages(fake(), stage="sass")
    with pytest.raises(ValueError, match="no stages"):
        stages(fake(stages={}))
    with pytest.raises(ValueError, match="at least one line"):
        stages(fake(), most_lines=0)
    for wrong in ("5", 5.0, None):
        with pytest.raises(TypeError, match="a whole number of lines"):
            stages(fake(), most_lines=wrong)


def test_a_kernels_name_keeps_its_underscores_and_is_no_unit() -> None:
    shown = stages(fake(name="add_kernel_ns"), fake(name="other_bytes", counts={"a_b": 5}))
    for text in (str(shown), re.sub("<[^>]*>", "\n", page(*shown.compiled))):
        assert re.search(r"\badd_kernel_ns\b", text) and "add kernel" not in text
        assert re.search(r"\bother_bytes\b", text) and re.search(r"\ba b\b", text)
    assert "<th" in page(*shown.compiled) and "other_bytes</th>" in page(*shown.compiled)
    assert shown.table.columns.tolist() == ["count", "add_kernel_ns", "other_bytes"]


def test_zeros_of_ptx_are_zeros_too() -> None:
    shown = stages(fake(counts={"mma": "none (PTX)", "wgmma": "0 (PTX)", "tma": "10 (PTX)"}))
    assert "tma" in str(shown) and not re.search(r"mma\b", str(shown))


def test_without_sass_ptx_comes_first() -> None:
    kernel = fake()
    kernel.stages.pop("SASS")
    assert stages(kernel).stage == "PTX"


def test_saved_as_a_page_that_asks_for_nothing(tmp_path) -> None:
    shown = stages(fake())
    assert isinstance(shown, StagesView)
    text = shown.save(tmp_path / "stages.html").read_text()
    assert text.startswith("<!DOCTYPE html>") and "http" not in text
    with pytest.raises(ValueError, match=r"use \.html"):
        shown.save(tmp_path / "stages.png")


def test_the_same_kernels_give_the_same_page() -> None:
    assert page(fake("8.0"), fake("9.0")) == page(fake("8.0"), fake("9.0"))
