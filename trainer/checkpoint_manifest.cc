#include "trainer/checkpoint_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "program/error.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

Json layout_json(const StoredLayout& stored) {
  Json json = Json::array();
  for (const auto& [file, layout] : stored.of_file) {
    Json begin = Json::array(), size = Json::array();
    for (const Layout::Cut& cut : layout.cuts) {
      begin.push_back(cut.begin);
      size.push_back(cut.size);
    }
    json.push_back({{"file", file},
                    {"begin", begin},
                    {"size", size},
                    {"part", {layout.part.begin, layout.part.end}},
                    {"elements", layout.shard}});
  }
  return json;
}

Layout layout_from(const Json& json, const Shape& shape) {
  Layout layout;
  const Json &begin = json.at("begin"), &size = json.at("size");
  if (shape.empty() || begin.size() != shape.size() || size.size() != shape.size()) {
    throw DataError("a layout does not have the dims of its tensor");
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    layout.cuts.push_back({shape[i], begin[i].get<int64_t>(), size[i].get<int64_t>()});
    if (layout.cuts[i].begin < 0 || layout.cuts[i].size < 1 || shape[i] < 1) {
      throw DataError("a layout has a negative place or no elements");
    }
  }
  layout.part = {json.at("part").at(0).get<int64_t>(), json.at("part").at(1).get<int64_t>()};
  layout.shard = json.at("elements").get<int64_t>();
  const bool ordered = 0 <= layout.part.begin && layout.part.begin <= layout.part.end;
  if (!ordered || layout.part.end > element_count(layout.local_shape()) ||
      layout.part.end - layout.part.begin > layout.shard) {
    throw DataError("a layout's part lies outside its elements");
  }
  return layout;
}

// A layout's dims are those of the tensors that use it.
StoredLayout stored_layout_from(const Json& json, const Shape& shape, size_t files) {
  StoredLayout stored;
  for (const Json& piece : json) {
    const int file = piece.at("file").get<int>();
    if (file < 0 || static_cast<size_t>(file) >= files) {
      throw DataError(fmt::format("a layout names file {}; there are {}", file, files));
    }
    stored.of_file.emplace(file, layout_from(piece, shape));
  }
  return stored;
}

void read_tensors(const Json& json, Manifest& manifest) {
  const Json& layouts = json.at("layouts");
  manifest.layouts.resize(layouts.size());
  for (const auto& [name, tensor] : json.at("tensors").items()) {
    StoredTensor stored{tensor.at("dtype").get<std::string>(), tensor.at("shape").get<Shape>(),
                        tensor.at("layout").get<int>()};
    StoredLayout& layout = manifest.layouts.at(static_cast<size_t>(stored.layout));
    if (layout.of_file.empty()) {
      layout = stored_layout_from(layouts[static_cast<size_t>(stored.layout)], stored.shape,
                                  manifest.files.size());
    }
    for (const auto& [file, piece] : layout.of_file) {
      if (piece.whole_shape() != stored.shape) {
        throw DataError(fmt::format("{} does not have the shape of its layout", name));
      }
    }
    manifest.tensors.emplace(name, std::move(stored));
  }
}

Manifest manifest_from(const Json& json) {
  Manifest manifest{.program = json.at("program").get<std::string>(),
                    .step = json.at("step").get<int64_t>(),
                    .position = json.at("position").get<int64_t>(),
                    .mesh = json.at("mesh").get<std::string>(),
                    .config = json.at("config")};
  for (const Json& file : json.at("files")) {
    const auto name = file.at("name").get<std::string>();
    if (std::filesystem::path(name).filename() != name) {
      throw DataError(fmt::format("file {} is not in the checkpoint's folder", name));
    }
    manifest.files.push_back(
        {name, {file.at("bytes").get<int64_t>(), file.at("xxh3").get<std::string>()}});
  }
  if (manifest.step < 0 || manifest.position < 0) throw DataError("step or position is negative");
  read_tensors(json, manifest);
  return manifest;
}

std::string compact(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The hash is of the values: it does not matter how the text is laid out.
void check_format_and_hash(Json& json) {
  if (const Json& format = json.at("format"); format != kCheckpointFormat) {
    throw DataError(
        fmt::format("format {}; this program reads {}", format.dump(), kCheckpointFormat));
  }
  const auto stored = json.at("xxh3").get<std::string>();
  json.erase("xxh3");
  if (const std::string found = hash_of(compact(json)); found != stored) {
    throw DataError(fmt::format("has changed: its hash is {}; what was written has {}", found, stored));
  }
}

Json to_json(const Manifest& manifest) {
  Json json{{"format", kCheckpointFormat},   {"program", manifest.program},
            {"step", manifest.step},         {"position", manifest.position},
            {"mesh", manifest.mesh},         {"config", manifest.config},
            {"files", Json::array()},        {"layouts", Json::array()},
            {"tensors", Json::object()}};
  for (const StoredFile& file : manifest.files) {
    json["files"].push_back(
        {{"name", file.name}, {"bytes", file.stamp.bytes}, {"xxh3", file.stamp.hash}});
  }
  for (const StoredLayout& layout : manifest.layouts) json["layouts"].push_back(layout_json(layout));
  for (const auto& [name, tensor] : manifest.tensors) {
    json["tensors"][name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"layout", tensor.layout}};
  }
  return json;
}

}  // namespace

std::filesystem::path manifest_path(const std::filesystem::path& checkpoint) {
  return checkpoint / "manifest.json";
}

std::string to_text(const Manifest& manifest) {
  Json json = to_json(manifest);
  json["xxh3"] = hash_of(compact(json));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Manifest read_manifest(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = manifest_path(checkpoint);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError(fmt::format("{} is missing or cannot be read", path.string()));
  try {
    Json json = Json::parse(file);
    check_format_and_hash(json);
    return manifest_from(json);
  } catch (const std::exception& error) {
    throw DataError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace spillway
