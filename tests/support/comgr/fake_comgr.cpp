// SPDX-License-Identifier: MIT
// ROCm's comgr for tests: it "compiles" by writing down what it is given. TILEWRIGHT_FAKE_COMGR, a list of words, makes
// it another: `version2`, `clang19`, `silent` (its clang does not tell its version), `no_targets`, `no_object`,
// `no_data` (data cannot be made), `no_link` (the last action fails).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kSuccess = 0, kError = 1, kInvalid = 2;
constexpr int kSource = 1, kInclude = 2, kLog = 5, kBitcode = 6, kRelocatable = 7, kExecutable = 8;
constexpr const char* kIsaNames[] = {"amdgcn-amd-amdhsa--gfx90a", "amdgcn-amd-amdhsa--gfx942",
                                     "amdgcn-amd-amdhsa--gfx600", "spirv64-amd-amdhsa--amdgcnspirv"};

bool is(const char* word) {
  const char* const words = std::getenv("TILEWRIGHT_FAKE_COMGR");
  return words != nullptr && std::strstr(words, word) != nullptr;
}

struct Data {
  int kind;
  int owners = 1;
  std::string name, text;
};
struct Handle {
  uint64_t handle;
};
struct Info {
  std::string isa, options;
  int language = 0;
  bool logging = false;
};
using Set = std::vector<Data*>;

template <class T>
T* of(Handle handle) {
  return reinterpret_cast<T*>(handle.handle);  // NOLINT(performance-no-int-to-ptr)
}
template <class T>
Handle handle_of(T* object) {
  return {reinterpret_cast<uint64_t>(object)};
}

void add(Set& set, int kind, std::string text) { set.push_back(new Data{kind, 1, "", std::move(text)}); }

std::string all_of(const Set& set, int kind) {
  std::string text;
  for (const Data* data : set) {
    if (data->kind == kind) text += data->text;
  }
  return text;
}

int compile(const Info& info, const Set& input, Set& result) {
  const std::string source = all_of(input, kSource);
  if (info.language != 3 || source.empty()) return kInvalid;
  if (source.find("wrong") != std::string::npos) {
    if (info.logging) add(result, kLog, "instance.hip:1: wrong\n");
    return kError;
  }
  std::string text = info.isa + "\n" + info.options + "\n" + source;
  for (const Data* data : input) {
    if (data->kind == kInclude) text += "include " + data->name + "\n";
  }
  add(result, kBitcode, text);
  return kSuccess;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void amd_comgr_get_version(size_t* major, size_t* minor) { *major = is("version2") ? 2 : 3, *minor = 1; }
int amd_comgr_status_string(int status, const char** text) {
  if (status != kError && status != kInvalid) return kInvalid;
  *text = status == kError ? "ERROR" : "INVALID_ARGUMENT";
  return kSuccess;
}
int amd_comgr_get_isa_count(size_t* count) {
  *count = is("no_targets") ? 0 : std::size(kIsaNames);
  return kSuccess;
}
int amd_comgr_get_isa_name(size_t index, const char** name) {
  *name = kIsaNames[index];
  return kSuccess;
}

int amd_comgr_create_data(int kind, Handle* data) {
  if (is("no_data")) return kInvalid + 1;
  *data = handle_of(new Data{kind, 1, "", ""});
  return kSuccess;
}
int amd_comgr_release_data(Handle data) {
  if (--of<Data>(data)->owners == 0) delete of<Data>(data);
  return kSuccess;
}
int amd_comgr_set_data(Handle data, size_t bytes, const char* text) {
  of<Data>(data)->text.assign(text, bytes);
  return kSuccess;
}
int amd_comgr_set_data_name(Handle data, const char* name) {
  of<Data>(data)->name = name;
  return kSuccess;
}
int amd_comgr_get_data(Handle data, size_t* bytes, char* text) {
  const std::string& from = of<Data>(data)->text;
  if (text != nullptr) std::memcpy(text, from.data(), *bytes);
  *bytes = from.size();
  return kSuccess;
}

int amd_comgr_create_data_set(Handle* set) {
  *set = handle_of(new Set);
  return kSuccess;
}
int amd_comgr_destroy_data_set(Handle set) {
  for (Data* data : *of<Set>(set)) amd_comgr_release_data(handle_of(data));
  delete of<Set>(set);
  return kSuccess;
}
int amd_comgr_data_set_add(Handle set, Handle data) {
  ++of<Data>(data)->owners;
  of<Set>(set)->push_back(of<Data>(data));
  return kSuccess;
}
int amd_comgr_action_data_count(Handle set, int kind, size_t* count) {
  *count = 0;
  for (const Data* data : *of<Set>(set)) *count += data->kind == kind ? 1 : 0;
  return kSuccess;
}
int amd_comgr_action_data_get_data(Handle set, int kind, size_t index, Handle* found) {
  for (Data* data : *of<Set>(set)) {
    if (data->kind != kind || index-- != 0) continue;
    ++data->owners;
    *found = handle_of(data);
    return kSuccess;
  }
  return kInvalid;
}

int amd_comgr_create_action_info(Handle* info) {
  *info = handle_of(new Info);
  return kSuccess;
}
int amd_comgr_destroy_action_info(Handle info) {
  delete of<Info>(info);
  return kSuccess;
}
int amd_comgr_action_info_set_isa_name(Handle info, const char* name) {
  of<Info>(info)->isa = name;
  return kSuccess;
}
int amd_comgr_action_info_set_language(Handle info, int language) {
  of<Info>(info)->language = language;
  return kSuccess;
}
int amd_comgr_action_info_set_option_list(Handle info, const char** options, size_t count) {
  of<Info>(info)->options.clear();
  for (size_t i = 0; i < count; ++i) of<Info>(info)->options += std::string(i == 0 ? "" : " ") + options[i];
  return kSuccess;
}
int amd_comgr_action_info_set_logging(Handle info, bool logging) {
  of<Info>(info)->logging = logging;
  return kSuccess;
}

int amd_comgr_do_action(int action, Handle info_handle, Handle input_handle, Handle result_handle) {
  const Info& info = *of<Info>(info_handle);
  const Set& input = *of<Set>(input_handle);
  Set& result = *of<Set>(result_handle);
  switch (action) {
    case 0:  // the preprocessor, asked for the version
      if (!is("silent"))
        add(result, kSource,
            is("clang19") ? "# 1 \"x\"\ntilewright \"19.0.0git (rocm) \"\n"
                          : "# 1 \"x\"\ntilewright \"20.0.0git (rocm) \"\n");
      return kSuccess;
    case 1: return compile(info, input, result);
    case 4: add(result, kRelocatable, all_of(input, kBitcode) + "relocatable " + info.options + "\n"); return kSuccess;
    case 7:
      if (is("no_link")) return kError;
      add(result, kExecutable, is("no_object") ? "" : all_of(input, kRelocatable) + "linked\n");
      return kSuccess;
    default: return kInvalid;
  }
}

}  // extern "C"
#pragma GCC visibility pop
