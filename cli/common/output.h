// Standard output, where results go, and standard error, where everything else goes. Host-only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace vsa::cli {

/// Writes a result to stdout at once. Throws Failure: kInputOutput, with an empty message if the
/// reader closed the pipe, which needs no report.
void print_result(std::string_view text);
/// One JSON document over several lines.
void print_json(const nlohmann::ordered_json& document);
/// One JSON document on one line, for streams of records.
void print_json_line(const nlohmann::ordered_json& document);

/// Text for the user on stderr. It may get lost (stderr closed, its disk full, its reader gone):
/// that never ends the program and changes no exit code.
void write_stderr(std::string_view text);
/// One line for the user on stderr; never part of a result.
void note(std::string_view text);
/// "warning: ..." on stderr: an option has no effect, or another one than the user may expect.
void warn(std::string_view text);

/// Gives closed standard streams a place where writes fail. Otherwise the next file that is opened
/// gets their number, and what is meant for the user ends in it. To be called before any file is
/// opened.
void open_standard_streams();

}  // namespace vsa::cli
