// SPDX-License-Identifier: MIT
#include "device/cpu/shared_object.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace tilewright {
namespace {

// Linux 6.3 and later want to know whether code will run from it; earlier ones refuse the flag.
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(put));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::string why_not_loaded(std::string_view what) {
  const char* reason = dlerror();
  return fmt::format("cpu: cannot load '{}': {}", what, reason ? reason : "no reason given");
}

void* open_file(const char* path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }

}  // namespace

Result<std::shared_ptr<SharedObject>> SharedObject::open(const std::string& given) {
  // Without a slash dlopen would search the system's folders.
  const std::string path = given.find('/') == std::string::npos ? "./" + given : given;
  void* const handle = open_file(path.c_str());
  if (handle == nullptr) return Status(StatusCode::kIoError, why_not_loaded(path));
  return std::shared_ptr<SharedObject>(new SharedObject(handle, -1));
}

Result<std::shared_ptr<SharedObject>> SharedObject::open_image(std::span<const std::byte> image,
                                                               const std::string& name) {
  int file = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_EXEC);
  if (file < 0 && errno == EINVAL) file = memfd_create(name.c_str(), MFD_CLOEXEC);
  std::string reason = "no memory file";
  if (file >= 0) {
    // The descriptor stays open with the object: the loader knows objects by their paths, and a second one under the
    // same number would be taken for the first.
    if (write_all(file, image)) {
      if (void* const handle = open_file(fmt::format("/proc/self/fd/{}", file).c_str())) {
        return std::shared_ptr<SharedObject>(new SharedObject(handle, file));
      }
      reason = why_not_loaded(name);
    }
    close(file);
  }
  // Without /proc, or where memory files may not hold code: a private file, in the first folder that allows it.
  std::error_code ignored;
  for (const std::string& folder :
       {std::filesystem::temp_directory_path(ignored).string(), std::string("/var/tmp"), std::string("/dev/shm")}) {
    std::string path = fmt::format("{}/tilewright-XXXXXX", folder);
    const int temporary = mkostemp(path.data(), O_CLOEXEC);
    if (temporary < 0) continue;
    void* const handle = write_all(temporary, image) ? open_file(path.c_str()) : nullptr;
    if (handle == nullptr) reason = why_not_loaded(path);
    unlink(path.c_str());
    close(temporary);
    if (handle != nullptr) return std::shared_ptr<SharedObject>(new SharedObject(handle, -1));
  }
  return Status(StatusCode::kIoError, reason);
}

SharedObject::~SharedObject() {
  dlclose(handle_);
  if (file_ >= 0) close(file_);
}

const void* SharedObject::symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

}  // namespace tilewright
