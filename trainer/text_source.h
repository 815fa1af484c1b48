// Text as tokens: every byte of a file is an id, 0 to 255.
#pragma once

#include <string>

#include "trainer/input_file.h"
#include "trainer/token_source.h"

namespace spillway {

class TextSource : public TokenSource {
 public:
  explicit TextSource(const std::string& path);  // throws DataError: missing, empty
  [[nodiscard]] int64_t size() const override { return file_.size(); }
  void read(int64_t begin, std::span<int32_t> out) const override;

 private:
  InputFile file_;
};

}  // namespace spillway
