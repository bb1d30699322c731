"""What is counted in machine code: every kind of instruction that a generation has, once."""

from __future__ import annotations

import random

import pytest

from attnlab_helpers.compiler import KEYS
from attnlab_helpers.compiler.counts import BY_WIDTH, FROM_CUBIN, count_ptx, count_sass
from attnlab_helpers.compiler.machine_code import _resources, sass

# Instructions as nvdisasm writes them for 7.5 to 12.0, and the key that counts each.
SASS = [
    ("HMMA.16816.F32 R4, R8, R12, R4", "mma.sync"),
    ("@P0 IMMA.16832.S8.S8 R4, R8, R12, R4", "mma.sync"),
    ("QMMA.16832.F32.E4M3.E4M3 R4, R8, R12, R4", "mma.sync"),
    ("HGMMA.64x128x16.F32 R24, gdesc[UR8].tnspB, R24, gsb0", "wgmma"),
    ("QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR8], R24", "wgmma"),
    ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], !UPT", "tcgen05.mma"),
    ("LDGSTS.E.BYPASS.128 [R5], desc[UR6][R2.64]", "cp.async"),
    ("UTMALDG.2D [UR8], [UR4]", "tma"),
    ("UBLKCP.S.G [UR8], [UR4], UR6", "tma"),
    ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5", "global_atomics"),
    ("ATOMG.E.ADD.STRONG.GPU PT, R3, desc[UR4][R2.64], R5", "global_atomics"),
    ("REDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R5", "global_atomics"),
    ("ATOMS.POPC.INC.32 RZ, [R4]", "shared_atomics"),
    ("LD.E.128 R4, desc[UR4][R2.64]", "generic_loads"),
    ("ST.E desc[UR4][R2.64], R4", "generic_stores"),
    ("ATOM.E.ADD.STRONG.GPU PT, RZ, desc[UR4][R2.64], R5", "generic_atomics"),
    ("LDS.128 R4, [R2]", "shared_loads"),
    ("LDSM.16.MT88.4 R4, [R2]", "shared_loads"),
    ("@!P1 STS.64 [R2], R4", "shared_stores"),
    ("LDL.LU R4, [R1+0x10]", "local_loads"),
    ("STL.128 [R1+0x10], R4", "local_stores"),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", "barriers"),
    ("@P0 BRA `(.L_x_1)", "branches"),
    ("@P0 EXIT", "predicated_exits"),
]
# Instructions that look like others, and count as none of them.
PLAIN = [
    "HFMA2.MMA R3, -RZ, RZ, 0, 0",
    "LDGDEPBAR",
    "DEPBAR.LE SB0, 0x1",
    "EXIT",
    "S2R R0, SR_TID.X",
    "UTCBAR [UR4], URZ",
    "WARPGROUP.ARRIVE",
    "LDC.64 R2, c[0x0][0x210]",
]
WIDTHS = [
    ("LDG.E.128 R4, desc[UR4][R2.64]", "global_loads", 128),
    ("@!P0 LDG.E.64.CONSTANT R4, desc[UR4][R2.64]", "global_loads", 64),
    ("LDG.E.SYS R4, [R2]", "global_loads", 32),
    ("LDG.E.U16 R4, desc[UR4][R2.64]", "global_loads", 16),
    ("LDG.E.S8 R4, desc[UR4][R2.64]", "global_loads", 8),
    ("LDG.E.ENL2.256 R4, R8, desc[UR4][R2.64]", "global_loads", 256),
    ("STG.E desc[UR4][R2.64], R4", "global_stores", 32),
    ("@P3 STG.E.U8 desc[UR4][R2.64], R4", "global_stores", 8),
]


def test_a_shuffled_listing_is_counted_instruction_by_instruction() -> None:
    draw = random.Random(5)
    expected: dict = dict.fromkeys(KEYS, 0) | {name: {} for name in BY_WIDTH}
    lines = []
    for _ in range(400):
        kind = draw.randrange(3)
        if kind == 0:
            text, key = draw.choice(SASS)
            expected[key] += 1
        elif kind == 1:
            text, key, width = draw.choice(WIDTHS)
            expected[key][width] = expected[key].get(width, 0) + 1
            expected["predicated_memory"] += text.startswith("@")
        else:
            text = draw.choice(PLAIN)
        expected["instructions"] += 1
        lines.append(f"          {text}")
        if draw.random() < 0.1:
            lines.append(f".L_x_{len(lines)}:")
    counts = count_sass("add:\n" + "\n".join(lines) + "\n")
    assert counts == {name: expected[name] for name in counts}
    assert set(counts) == set(KEYS) - set(FROM_CUBIN)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2};", "mma.sync"),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%f1}, %rd1, %rd2, 1;", "wgmma"),
        ("@%p1 tcgen05.mma.cta_group::1.kind::f16 [ %r1 ], %rd1, %rd2, %r3, %p2;", "tcgen05.mma"),
        ("cp.async.cg.shared.global [ %r1 ], [ %rd1 ], 0x10;", "cp.async"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.tile [%r1], [%rd1];", "tma"),
        ("atom.global.gpu.acq_rel.add.f32 %f1, [%rd1], %f2;", "global_atomics"),
        ("atom.relaxed.gpu.global.add.u32 %r1, [%rd1], 3;", "global_atomics"),
        ("red.relaxed.cta.shared.add.u32 [%r1], 3;", "shared_atomics"),
        ("atom.add.u32 %r1, [%rd1], 3;", "generic_atomics"),
        ("ld.volatile.u32 %r1, [%rd1];", "generic_loads"),
        ("st.v4.b32 [%rd1], {%r1, %r2, %r3, %r4};", "generic_stores"),
        ("ld.const.b32 %r1, [table];", None),
        ("st.param.b32 [func_retval0], %r1;", None),
        ("ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];", "shared_loads"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%r5];", "shared_loads"),
        ("st.shared.b32 [%r5], %r1;", "shared_stores"),
        ("bar.sync 0;", "barriers"),
        ("@%p1 bra $L__BB0_2;", "branches"),
        ("@%p1 ret;", "predicated_exits"),
        ("cp.async.commit_group;", None),
        ("wgmma.commit_group.sync.aligned;", None),
        ("ld.param.b64 %rd1, [add_param_0];", None),
    ],
)  # fmt: skip
def test_each_kind_in_ptx_is_counted_once(text, key) -> None:
    counts = count_ptx(f".reg .b32 %r<9>;\n\t{text}\n")
    found = {name for name, count in counts.items() if count} - {"instructions"}
    assert counts["instructions"] == 1 and found == ({key} if key else set())


def test_widths_in_ptx_are_the_type_times_the_vector() -> None:
    counts = count_ptx(
        "\t@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];\n"
        "\tld.global.nc.f32 %f1, [%rd1];\n\tld.volatile.global.b16 %rs1, [%rd1];\n"
        "\tst.global.v2.b64 [%rd1], {%rd2, %rd3};\n"
    )
    assert counts["global_loads"] == {128: 1, 32: 1, 16: 1}
    assert counts["global_stores"] == {128: 1} and counts["predicated_memory"] == 1


LISTING = """\
//--------------------- .text.other               --------------------------
.text.other:
        /*0000*/                   NOP ;
//--------------------- .text._Z3addPf --------------------------
\t.section\t.text._Z3addPf,"ax",@progbits
_Z3addPf:
.text._Z3addPf:
\t//## File "kernel.cu", line 4
        /*0000*/                   MOV R1, c[0x0][0x28] ;
\t//## File "cuda_fp16.h", line 900 inlined at "cuda_fp16.h", line 12
\t//## File "cuda_fp16.h", line 12 inlined at "kernel.cu", line 6
\t//## File "kernel.cu", line 6
        /*0010*/              @!P6 LDG.E R13, desc[UR6][R22.64] ;
\t//## File "other.h", line 3
        /*0020*/               @P0 BRA `(.L_x_0) ;
        /*0030*/                   NOP ;
.L_x_0:
\t//## File "kernel.cu", line 0
        /*0040*/                   EXIT ;
.L_x_1:
        /*0050*/                   BRA `(.L_x_1);
        /*0060*/                   NOP;
        /*0070*/                   NOP;
.L_x_2:
"""


def test_machine_code_loses_its_padding_and_keeps_labels_predicates_and_lines() -> None:
    text, lines = sass(LISTING, "_Z3addPf", "kernel.cu")
    assert [line.split() for line in text.splitlines()] == [
        ["_Z3addPf:"],
        ["MOV", "R1,", "c[0x0][0x28]"],
        ["@!P6", "LDG.E", "R13,", "desc[UR6][R22.64]"],
        ["@P0", "BRA", "`(.L_x_0)"],
        ["NOP"],
        [".L_x_0:"],
        ["EXIT"],
    ]
    assert lines == (None, 4, 6, None, None, None, None)


def test_registers_are_those_of_the_kernel_that_was_asked_for() -> None:
    usage = (
        "Resource usage:\n Common:\n  GLOBAL:0\n"
        " Function other:\n  REG:8 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:360 TEXTURE:0\n"
        " Function add:\n  REG:40 STACK:96 SHARED:2048 LOCAL:8 CONSTANT[0]:360 TEXTURE:0\n"
    )
    assert _resources(usage, "add") == {
        "registers": 40,
        "local_bytes": 104,
        "shared_bytes": 2048,
    }
    assert _resources(usage, "missing") == {}
    unknown = " Function add:\n  REG:24 STACK:UNKNOWN SHARED:0 LOCAL:0 CONSTANT[0]:536 TEXTURE:0\n"
    assert _resources(unknown, "add") == {"registers": 24, "shared_bytes": 0}
