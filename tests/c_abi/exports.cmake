# Fails unless LIBRARY exports exactly the functions that HEADER declares.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " [A-Za-z] [^\n]+" symbols "${symbols}")
list(TRANSFORM symbols REPLACE "^ [A-Za-z] " "")
list(SORT symbols)

file(READ ${HEADER} text)
string(REGEX MATCHALL "VSA_API [a-z0-9_* ]*[ *](vsa_[a-z_0-9]+)\\(" declared "${text}")
list(TRANSFORM declared REPLACE ".*[ *](vsa_[a-z_0-9]+)\\($" "\\1")
list(SORT declared)

if(NOT "${symbols}" STREQUAL "${declared}" OR "${declared}" STREQUAL "")
  message(FATAL_ERROR "exported: ${symbols}\ndeclared: ${declared}")
endif()
