# Run by cpack on the staged files: where Debian's policy differs from
# `cmake --install`.
find_program(gzip gzip REQUIRED)
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/*.[18]
     ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/*/changelog)
foreach(page ${pages})
  # -n: without the time, so that each build makes the same file.
  execute_process(COMMAND ${gzip} -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
