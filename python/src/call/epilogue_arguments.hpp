// SPDX-License-Identifier: MIT
// Activations, gates, steps and scales, from what Python writes for them.
#pragma once

#include "errors.hpp"
#include "tensor/tensor_import.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::python {

// An object as Python prints it, for messages.
std::string printed(nb::handle object);

struct ParsedActivation {
  Activation activation = Activation::kNone;
  float low = 0, high = 0;
};

// None, a name, ("clamp", low, high) or "clamp(low, high)".
ParsedActivation parse_activation(const char* op, const char* name, nb::handle value);

GateMode parse_gate(const char* op, nb::handle value);

// A list or tuple of activations, ("add", tensor) and ("mul", tensor). Where `tensors` is a list, "add" and "mul" stand
// alone and take its entries in order.
void parse_steps(const char* op, nb::handle steps, nb::handle tensors, Access access, std::vector<GemmStep>& to,
                 ImportScope& scope);

// A Python number joins alpha; a tensor stays one.
void parse_scale(const char* op, const char* name, nb::handle value, Access access, float& alpha, TensorView& scale,
                 ImportScope& scope);

// (rows or columns, values along K) that share a scale; the default where nothing was passed.
ScaleGroup parse_scale_group(const char* op, const char* name, nb::handle value);

// Numbers and truth values; `fallback` where nothing was passed.
float parse_number(const char* op, const char* name, nb::handle value, float fallback);
bool parse_bool(const char* op, const char* name, nb::handle value);
int parse_units(const char* op, nb::handle value);

}  // namespace tilewright::python
