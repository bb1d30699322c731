"""Faults that people met in the field: where each is tested, or why it cannot happen here."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# The case's number -> the test that holds its right value, or the reason why there is none.
CASES = {
    "N01": "test_n01_a_fully_masked_row_is_zero_and_the_others_do_not_change",
    "N03": "test_n03_masked_keys_never_matter_and_masked_values_matter_only_as_nan",
    "N05": "test_n05_alignment_is_a_named_choice",
    "N08": "test_n08_backward_follows_causal",
    "N09": "test_n09_a_decode_step_is_attention_without_a_mask",
    "N10": "test_n10_short_sequences",
    "N11": "test_n11_lengths_around_a_tile",
    "N16": "test_n16_every_tensor_may_have_its_own_strides",
    "N17": "test_n17_an_output_gradient_may_have_any_strides",
    "N20": "test_n20_more_heads_than_a_grid_axis_holds",
    "N21": "test_n21_tensors_beyond_two_to_the_31_elements",
    "N23": "test_n23_heads_that_cannot_be_shared_out_are_refused",
    "N24": "test_n24_large_logits",
    "N27": "test_n27_all_of_head_dim_counts",
    "N29": "test_n29_sizes_that_are_no_power_of_two",
    "N32": "test_n32_float64_is_computed_in_float64",
    "N33": "test_n33_empty_problems_have_empty_results",
    "N35": "does not apply: no implementation here has dropout.",
    "N37": "test_200_launches_give_finite_and_equal_results",
    "N38": "test_n38_in_place_gives_gradients_and_leaves_the_callers_tensors_alone",
    "N39": "test_n39_the_mask_has_an_effect",
    "S01": "test_s01_head_dims_off_eight_are_right_or_refused_with_the_reason",
    "S02": "test_bad_arguments_get_a_sentence",
    "S03": "test_s03_masks_are_right_or_named_as_the_reason",
    "S04": "test_s04_grouped_heads_in_float32_say_that_math_ran",
    "S06": "test_s06_large_head_dims_are_answered_for_each_backend",
    "S09": "test_s09_a_mask_may_be_expanded",
    "S10": "test_s10_a_bias_of_43_columns_is_right_or_refused",
    "S12": "test_s12_a_bias_of_another_float_dtype_is_rounded_to_the_queries",
    "S13": "test_s13_a_float_mask_of_zeros_and_ones_is_warned_about",
    "S14": "test_causal_and_a_mask_combine",
    "S15": "test_s15_cudnn_is_right_or_refuses_and_the_next_call_works",
    "S17": "test_wrong_results_and_wrong_gradients_are_found",
    "S19": "test_s19_the_order_of_a_list_counts_only_when_asked_to",
    "S20": "test_s20_forward_and_training_are_asked_apart",
    "S23": "test_flops_follow_the_papers_and_causal_is_half",
    "T01": "test_importing_costs_no_cuda_context_no_triton_no_matplotlib",
    "T02": "test_t02_without_triton_kernels_define_and_launching_says_what_is_missing",
    "T03": "test_t03_bfloat16_comes_out_right",
    "T05": "test_t05_t06_t07_loops_tails_and_scalars_work_with_the_installed_numpy",
    "T06": "test_t05_t06_t07_loops_tails_and_scalars_work_with_the_installed_numpy",
    "T07": "test_t05_t06_t07_loops_tails_and_scalars_work_with_the_installed_numpy",
    "T08": "does not apply: atomics add into float32 only.",
    "T10": "test_compiled_over_lengths_and_head_dims",
    "T11": "test_t11_an_old_card_is_refused_before_a_launch",
    "T12": "test_tiles_that_do_not_fit_are_refused_with_what_to_do",
    "T14": "test_a_part_that_moved_is_named_with_the_file_to_look_at",
    "T15": "test_t15_t16_a_home_that_cannot_be_written_gets_a_cache_elsewhere",
    "T16": "test_t15_t16_a_home_that_cannot_be_written_gets_a_cache_elsewhere",
    "T17": "test_a_kernel_from_exec_has_no_source_to_compile",
    "T18": "test_t18_a_kernel_made_in_a_function_runs",
    "T20": "does not apply: nothing is tuned at run time; configurations stand in a table.",
    "T21": "does not apply: times come from CUDA events; notebook 03 shows the mistake itself.",
    "T22": "does not apply: all timed calls are queued and waited for once (profiling/timing.py).",
    "P02": "CASE IN test_trace_reader.py",
    "P03": "CASE IN test_trace_reader.py",
    "P04": "CASE IN test_trace_reader.py",
    "P06": "CASE IN test_trace_reader.py",
    "P07": "CASE IN test_trace_reader.py",
    "P09": "test_p09_self_times_add_up_and_totals_are_not_added",
    "P10": "does not apply: tables are made from the trace; no attribute that was renamed is read.",
    "P11": "test_the_warm_up_is_not_in_the_trace",
    "P12": "test_the_warm_up_is_not_in_the_trace",
    "P14": "test_p14_every_call_asked_for_is_in_the_trace",
    "P17": "test_p17_a_refused_profiler_names_its_cause",
    "P18": "test_300_megabytes",
    "P20": "CASE IN test_trace_reader.py",
    "P21": "does not apply: export_memory_timeline is not used; memory_steps keeps its own ledger.",
    "P22": "test_p22_the_peak_does_not_remember_what_ran_before",
    "P24": "CASE IN test_trace_reader.py",
    "P26": "CASE IN test_trace_reader.py",
    "J01": "CASE IN test_nbval.py",
    "J02": "CASE IN test_nbval.py",
    "J03": "test_dirty_outputs_are_found",
    "J04": "CASE IN test_nbval.py",
    "J06": "test_widgets_leave_their_picture_and_no_dead_view",
    "J07": "test_a_page_is_complete_without_a_network",
    "J10": "does not apply: no notebook shows a widget; a picture is an image first.",
    "J11": "test_j11_j13_pictures_need_no_widgets_and_print_nothing_about_fonts",
    "J13": "test_j11_j13_pictures_need_no_widgets_and_print_nothing_about_fonts",
    "J15": "test_a_t4_has_no_bf16_tensor_cores_whatever_torch_says",
    "J16": "test_j16_a_boolean_mask_with_a_dead_row_gives_zeros",
    "J17": "test_j17_grouped_heads_with_a_mask",
    "J18": "test_j18_grouped_decode_and_permuted_views",
}  # fmt: skip


@pytest.fixture(scope="module")
def tests() -> dict[str, str]:
    """Name of every test function -> the text of its file."""
    found = {}
    for path in HERE.glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        names = (
            node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)
        )
        found |= dict.fromkeys(names, text)
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_tested_or_says_why_not(case, tests) -> None:
    where = CASES[case]
    if where.startswith("does not apply: "):
        return
    if where.startswith("CASE IN "):
        text = (HERE / where.removeprefix("CASE IN ")).read_text(encoding="utf-8")
        assert case.lower() in text.lower(), f"{where} does not name {case}"
        return
    assert where in tests, f"{case} names {where}, which is no test"
