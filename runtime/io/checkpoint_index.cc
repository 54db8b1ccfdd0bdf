// The index of a sharded checkpoint: which file holds which tensor.
#include "runtime/io/checkpoint_index.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "runtime/io/printable.h"

namespace vsa::io {
namespace {

using nlohmann::json;

/// Parses JSON of at most 3 nested levels whose objects have no key twice; nlohmann alone would
/// silently keep the last value of a key.
json parse_strict(std::string_view text, std::string& fault) {
  constexpr int kMaxDepth = 3;
  std::vector<std::set<std::string>> keys(kMaxDepth + 1);
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    const auto level = static_cast<size_t>(depth);
    if (depth > kMaxDepth) {
      if (fault.empty()) fault = "nesting: expected at most 3 levels, got more";
      return false;
    }
    if (event == json::parse_event_t::object_start) keys[level].clear();
    if (event == json::parse_event_t::key && !keys[level - 1].insert(parsed).second &&
        fault.empty()) {
      fault = fmt::format("{}: expected each key once, got it twice",
                          printable(parsed.get_ref<const std::string&>()));
    }
    return true;
  };
  json result = json::parse(text.begin(), text.end(), check, /*allow_exceptions=*/false);
  if (fault.empty() && !result.is_object()) fault = "text: expected a JSON object, got none";
  return result;
}

bool is_plain_shard_name(std::string_view file) {
  // A separator could lead out of the directory, a NUL would cut the name short.
  return file.ends_with(".safetensors") && file.find('/') == file.npos &&
         file.find('\\') == file.npos && file.find('\0') == file.npos;
}

}  // namespace

Result<WeightMap> parse_checkpoint_index(std::string_view text, std::string_view file) {
  const auto fail = [file](std::string_view what) {
    return io_error(fmt::format("[read_index] {}: {}", file, what));
  };
  if (text.find('\0') != text.npos) return fail("text: expected JSON, got a NUL byte");
  std::string fault;
  const json index = parse_strict(text, fault);
  if (!fault.empty()) return fail(fault);
  for (const auto& [key, value] : index.items()) {
    if (key != "metadata" && key != "weight_map") {
      return fail(fmt::format("keys: expected metadata and weight_map, got {}", printable(key)));
    }
  }
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object()) {
    return fail("weight_map: expected an object, got none");
  }
  WeightMap result;
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!shard.is_string() || !is_plain_shard_name(shard.get_ref<const std::string&>())) {
      return fail(
          fmt::format("{}: expected the name of a .safetensors file beside the index, got {}",
                      printable(tensor),
                      printable(shard.is_string()
                                    ? shard.get<std::string>()
                                    : shard.dump(-1, ' ', true, json::error_handler_t::replace))));
    }
    result.emplace(tensor, shard.get<std::string>());
  }
  if (result.empty()) return fail("weight_map: expected at least one tensor, got none");
  return result;
}

}  // namespace vsa::io
