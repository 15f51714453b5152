//===- SizeReasons.h - Where a size comes from ------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_MODULES_SIZEREASONS_H
#define OCTET_LIB_MODULES_SIZEREASONS_H

#include <string_view>

namespace octet {

/// Where the sides of a weight come from, for messages.
/// \param name      of its module below the layer.
/// \param isLatent  of a model with latent attention.
inline std::string_view explainSize(std::string_view name, bool isLatent) {
  struct Reason {
    std::string_view name, why;
  };
  constexpr Reason kReasons[] = {
      {"input_layernorm", "(hidden_size)"},
      {"post_attention_layernorm", "(hidden_size)"},
      {"self_attn.q_norm", "(head_dim)"},
      {"self_attn.k_norm", "(head_dim)"},
      {"self_attn.q_proj", "(num_attention_heads * head_dim x hidden_size)"},
      {"self_attn.k_proj", "(num_key_value_heads * head_dim x hidden_size)"},
      {"self_attn.v_proj", "(num_key_value_heads * head_dim x hidden_size)"},
      {"self_attn.o_proj", "(hidden_size x num_attention_heads * head_dim)"},
      {"mlp.gate_proj", "(intermediate_size x hidden_size)"},
      {"mlp.up_proj", "(intermediate_size x hidden_size)"},
      {"mlp.down_proj", "(hidden_size x intermediate_size)"},
      {"lm_head", "(vocab_size x hidden_size)"},
  };
  constexpr Reason kLatent[] = {
      {"self_attn.q_proj",
       "(num_attention_heads * (qk_nope_head_dim + qk_rope_head_dim) x "
       "hidden_size)"},
      {"self_attn.q_a_proj", "(q_lora_rank x hidden_size)"},
      {"self_attn.q_b_proj",
       "(num_attention_heads * (qk_nope_head_dim + qk_rope_head_dim) x "
       "q_lora_rank)"},
      {"self_attn.kv_a_proj_with_mqa",
       "(kv_lora_rank + qk_rope_head_dim x hidden_size)"},
      {"self_attn.kv_b_proj",
       "(num_attention_heads * (qk_nope_head_dim + v_head_dim) x "
       "kv_lora_rank)"},
      {"self_attn.o_proj", "(hidden_size x num_attention_heads * v_head_dim)"},
  };
  if (isLatent)
    for (const Reason &reason : kLatent)
      if (reason.name == name)
        return reason.why;
  for (const Reason &reason : kReasons)
    if (reason.name == name)
      return reason.why;
  if (name.ends_with(".gate_proj") || name.ends_with(".up_proj"))
    return "(intermediate size of the experts x hidden_size)";
  return "(by config.json)";
}

} // namespace octet

#endif // OCTET_LIB_MODULES_SIZEREASONS_H
