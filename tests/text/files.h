// Files of tests/data.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace spillway {

inline std::string test_data(const std::string& name) {
  std::ifstream in(std::string(SPILLWAY_SOURCE_DIR "/tests/data/") + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace spillway
