// SPDX-License-Identifier: MIT
#include "call/epilogue_arguments.hpp"

#include <charconv>

namespace tilewright::python {
namespace {

// The enum value whose name `text` is, or -1.
template <class Enum>
int find_name(std::string_view text) {
  for (int i = 0; i < enum_count(Enum{}); ++i) {
    if (text == enum_names(Enum{})[i]) return i;
  }
  return -1;
}

template <class Enum>
std::string names_of() {
  return fmt::format("'{}'", fmt::join(enum_names(Enum{}), enum_names(Enum{}) + enum_count(Enum{}), "', '"));
}

float bound_of(const char* op, const char* name, nb::handle value) {
  float bound = 0;
  if (!nb::try_cast(value, bound)) refuse("{}: argument '{}': clamp bound {} is no number", op, name, printed(value));
  return bound;
}

// "clamp(low, high)".
bool parse_clamp(std::string_view text, ParsedActivation& to) {
  constexpr std::string_view kOpen = "clamp(";
  if (!text.starts_with(kOpen) || !text.ends_with(')')) return false;
  const char* at = text.data() + kOpen.size();
  const char* const end = text.data() + text.size() - 1;
  std::from_chars_result read = std::from_chars(at, end, to.low);
  if (read.ec != std::errc() || read.ptr == end || *read.ptr != ',') return false;
  at = read.ptr + 1;
  while (at != end && *at == ' ') ++at;
  read = std::from_chars(at, end, to.high);
  to.activation = Activation::kClamp;
  return read.ec == std::errc() && read.ptr == end;
}

// An activation, ("add", tensor) or ("mul", tensor).
GemmStep parse_step(const char* op, const char* name, nb::handle value, Access access, ImportScope& scope) {
  if (PyTuple_Check(value.ptr()) && nb::len(value) == 2 && PyUnicode_Check(nb::object(value[0]).ptr())) {
    const nb::object word = value[0], tensor = value[1];
    const auto kind = static_cast<StepKind>(find_name<StepKind>(nb::cast<std::string_view>(word)));
    if (kind == StepKind::kAdd) return GemmStep::add(import_tensor(op, name, tensor, access, scope).view);
    if (kind == StepKind::kMultiply) return GemmStep::multiply(import_tensor(op, name, tensor, access, scope).view);
    refuse("{}: argument '{}' is {}, allowed: an activation, ('add', tensor), ('mul', tensor)", op, name,
           printed(word));
  }
  const ParsedActivation parsed = parse_activation(op, name, value);
  return GemmStep::activate(parsed.activation, parsed.low, parsed.high);
}

// Of a torch operator: "add" and "mul" take the next tensor.
GemmStep parse_bare_step(const char* op, const char* name, nb::handle value, nb::handle tensors, size_t& next,
                         Access access, ImportScope& scope) {
  const int found = PyUnicode_Check(value.ptr()) ? find_name<StepKind>(nb::cast<std::string_view>(value)) : -1;
  const auto kind = static_cast<StepKind>(found);
  if (found < 0 || (kind != StepKind::kAdd && kind != StepKind::kMultiply)) {
    return parse_step(op, name, value, access, scope);
  }
  if (tensors.is_none() || next >= nb::len(tensors)) {
    refuse("{}: argument '{}' is {}, and 'step_tensors' has no tensor left for it", op, name, printed(value));
  }
  const TensorView view = import_tensor(op, name, nb::object(tensors[next++]), access, scope).view;
  return kind == StepKind::kAdd ? GemmStep::add(view) : GemmStep::multiply(view);
}

}  // namespace

std::string printed(nb::handle object) { return nb::cast<std::string>(nb::repr(object)); }

ParsedActivation parse_activation(const char* op, const char* name, nb::handle value) {
  if (value.is_none()) return {};
  if (PyUnicode_Check(value.ptr())) {
    const auto text = nb::cast<std::string_view>(value);
    const int found = find_name<Activation>(text);
    if (found >= 0 && static_cast<Activation>(found) != Activation::kClamp) return {static_cast<Activation>(found)};
    if (ParsedActivation clamp; parse_clamp(text, clamp)) return clamp;
  } else if (PyTuple_Check(value.ptr()) && nb::len(value) == 3 && PyUnicode_Check(nb::object(value[0]).ptr()) &&
             nb::cast<std::string_view>(nb::object(value[0])) == "clamp") {
    return {Activation::kClamp, bound_of(op, name, nb::object(value[1])), bound_of(op, name, nb::object(value[2]))};
  }
  refuse("{}: argument '{}' is {}, allowed: None, {} as ('clamp', low, high)", op, name, printed(value),
         names_of<Activation>());
}

GateMode parse_gate(const char* op, nb::handle value) {
  if (value.is_none()) return GateMode::kNone;
  const int found = PyUnicode_Check(value.ptr()) ? find_name<GateMode>(nb::cast<std::string_view>(value)) : -1;
  if (found < 0) refuse("{}: argument 'gate' is {}, allowed: None, {}", op, printed(value), names_of<GateMode>());
  return static_cast<GateMode>(found);
}

void parse_steps(const char* op, nb::handle steps, nb::handle tensors, Access access, std::vector<GemmStep>& to,
                 ImportScope& scope) {
  const size_t given = tensors.is_none() ? 0 : nb::len(tensors);
  size_t next = 0;
  if (!steps.is_none()) {
    if (!PyTuple_Check(steps.ptr()) && !PyList_Check(steps.ptr())) {
      refuse("{}: argument 'steps' is {}, allowed: a list or tuple of steps", op, printed(steps));
    }
    const size_t count = nb::len(steps);
    if (count > kMaxSteps) {
      refuse("{}: argument 'steps' has {} entries, allowed: at most {}", op, count, kMaxSteps);
    }
    for (size_t i = 0; i < count; ++i) {
      const std::string name = fmt::format("steps[{}]", i);
      to.push_back(parse_bare_step(op, name.c_str(), nb::object(steps[i]), tensors, next, access, scope));
    }
  }
  if (next != given) refuse("{}: argument 'step_tensors' has {} entries, 'steps' takes {}", op, given, next);
}

void parse_scale(const char* op, const char* name, nb::handle value, Access access, float& alpha, TensorView& scale,
                 ImportScope& scope) {
  if (value.is_none()) return;
  float number = 0;
  if (!nb::hasattr(value, "__dlpack__") && nb::try_cast(value, number)) {
    alpha *= number;
  } else {
    scale = import_tensor(op, name, value, access, scope).view;
  }
}

ScaleGroup parse_scale_group(const char* op, const char* name, nb::handle value) {
  ScaleGroup group;
  if (value.is_none()) return group;
  const bool pair = (PyTuple_Check(value.ptr()) || PyList_Check(value.ptr())) && nb::len(value) == 2;
  if (!pair || !nb::try_cast(nb::object(value[0]), group.outer) || !nb::try_cast(nb::object(value[1]), group.k)) {
    refuse("{}: argument '{}' is {}, allowed: None, or two integers, (1, 32)", op, name, printed(value));
  }
  return group;
}

float parse_number(const char* op, const char* name, nb::handle value, float fallback) {
  if (value.is_none()) return fallback;
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse("{}: argument '{}' is {}, allowed: a number", op, name, printed(value));
  }
  return static_cast<float>(number);
}

bool parse_bool(const char* op, const char* name, nb::handle value) {
  if (value.ptr() == Py_True) return true;
  if (value.ptr() == Py_False || value.is_none()) return false;
  refuse("{}: argument '{}' is {}, allowed: True, False", op, name, printed(value));
}

int parse_units(const char* op, nb::handle value) {
  if (value.is_none()) return 0;
  int units = 0;
  if (!nb::try_cast(value, units) || units < 0) {
    refuse("{}: argument 'units' is {}, allowed: 0 (all) or more", op, printed(value));
  }
  return units;
}

}  // namespace tilewright::python
