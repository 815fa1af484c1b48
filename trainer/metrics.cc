#include "trainer/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "program/error.h"

namespace spillway {
namespace {

// Whether a file ends in the middle of a line, as after a crash.
bool ends_in_line(int descriptor) {
  struct stat status {};
  char last = '\n';
  if (fstat(descriptor, &status) != 0 || status.st_size == 0) return false;
  return pread(descriptor, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

bool is_gone(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && status.st_nlink == 0;
}

}  // namespace

void create_output_directory(const std::filesystem::path& directory, const char* key) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw ConfigError(fmt::format("{} {}: cannot be made: {}", key, directory.string(),
                                  error.message()));
  }
  std::string probe = (directory / ".writable_XXXXXX").string();
  const int descriptor = mkstemp(probe.data());
  if (descriptor < 0) {
    throw ConfigError(fmt::format("{} {}: cannot be written: {}", key, directory.string(),
                                  std::strerror(errno)));
  }
  close(descriptor);
  unlink(probe.c_str());
}

MetricsLog::MetricsLog(const std::filesystem::path& directory, Warn warn)
    : path_((directory / "metrics.jsonl").string()), warn_(std::move(warn)) {
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw ConfigError(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
  }
  in_line_ = ends_in_line(descriptor_);
}

MetricsLog::~MetricsLog() { close(descriptor_); }

void MetricsLog::write(const nlohmann::ordered_json& record) {
  const std::string line =
      fmt::format("{}{}\n", in_line_ ? "\n" : "",
                  record.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t put = ::write(descriptor_, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      warn_once(std::strerror(errno));
      if (rest.size() < line.size()) in_line_ = true;
      return;
    }
    rest.remove_prefix(static_cast<size_t>(put));
  }
  in_line_ = false;
  if (is_gone(descriptor_)) warn_once("the file has been removed");
}

void MetricsLog::warn_once(const std::string& why) {
  if (warned_) return;
  warned_ = true;
  warn_(fmt::format("warning: cannot write {}: {}; training goes on without it", path_, why));
}

}  // namespace spillway
