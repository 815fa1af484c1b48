// The text form. Programs and Schedules print and parse, so a pass test is text in, pass, text out.
//
//   program decoder_layer
//     input decoder_layer_input f32[64,64] device
//     param input_layernorm.weight f32[64]
//     value attn_norm f32[64,64]
//     ...
//   forward
//     attn_norm, attn_norm.rstd = rmsnorm(decoder_layer_input, input_layernorm.weight) {eps=1e-05}
//   backward
//     d.x+, input_layernorm.weight.grad+ = rmsnorm_bwd(...)
//
//   schedule
//     buffer L0.m0.query_proj f32[64,64] hbm activation
//   instrs
//     L0.fwd.m0   compute  L0.m0.query_proj = linear(L0.m0.attn_norm, ...)   # wait d2h#3
#pragma once

#include <string>

#include "program/plan.h"
#include "program/program.h"
#include "program/schedule.h"

namespace spillway {

[[nodiscard]] std::string to_text(const Program& program, const Op& op);
[[nodiscard]] std::string to_text(const Program& program);
[[nodiscard]] Program parse_program(const std::string& text);  // throws ConfigError with the line

[[nodiscard]] std::string to_text(const Schedule& schedule, const Instr& instr);
[[nodiscard]] std::string to_text(const Schedule& schedule);
[[nodiscard]] Schedule parse_schedule(const std::string& text);  // throws ConfigError with the line

}  // namespace spillway
