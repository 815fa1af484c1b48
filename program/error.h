// Errors that reach a user. Each names the thing, its value and the legal values.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace spillway {

// A configuration that cannot run: found before anything is allocated.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(const std::string& what) : std::runtime_error("config error: " + what) {}
};

// A planned peak above a device's capacity. Thrown before step 0.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bad input data: names the file and the offset.
class DataError : public std::runtime_error {
 public:
  explicit DataError(const std::string& what) : std::runtime_error("data error: " + what) {}
};

// A fault inside a step. Carries the instruction's text, slot and stream.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A broken invariant of the compiler itself: a bug in Spillway, never the user's fault.
class VerifyError : public std::logic_error {
 public:
  explicit VerifyError(const std::string& what) : std::logic_error("verifier: " + what) {}
};

// ", did you mean a or b?" for the legal names nearest to `name` by edit distance, or that begin like
// it; "" when none is near.
[[nodiscard]] std::string did_you_mean(const std::string& name,
                                       const std::vector<std::string>& legal);

}  // namespace spillway
