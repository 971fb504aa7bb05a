# cpack runs this on the staged files, to change what `cmake --install` does
# differently from Debian's policy.
find_program(gzip gzip REQUIRED)
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/*.[18]
     ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/*/changelog)
foreach(page ${pages})
  # -n: no timestamp, so that builds are reproducible.
  execute_process(COMMAND ${gzip} -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

set(staged ${CPACK_TEMPORARY_DIRECTORY})
# Move topk.pc to the folder that pkg-config searches for this architecture.
set(lib ${staged}/dev/usr/lib)
file(READ ${lib}/pkgconfig/topk.pc description)
string(REPLACE "{pcfiledir}/" "{pcfiledir}/../" description "${description}")
file(REMOVE_RECURSE ${lib}/pkgconfig)
file(WRITE ${lib}/${CPACK_LIBRARY_ARCHITECTURE}/pkgconfig/topk.pc
     "${description}")

# Move the debug information of the programs to topkd-dbgsym, where gdb finds it
# by the build ID. With CPACK_DEBIAN_DEBUGINFO_PACKAGE, CPack 3.25 would write
# wrong paths to the package's md5sums.
file(GLOB programs ${staged}/runtime/usr/bin/*)
foreach(program ${programs})
  execute_process(COMMAND ${CPACK_READELF_PROGRAM} -n ${program}
                  OUTPUT_VARIABLE notes COMMAND_ERROR_IS_FATAL ANY)
  if(NOT notes MATCHES "Build ID: ([0-9a-f][0-9a-f])([0-9a-f]+)")
    message(FATAL_ERROR "${program} has no build ID")
  endif()
  set(symbols ${staged}/dbgsym/usr/lib/debug/.build-id/${CMAKE_MATCH_1})
  file(MAKE_DIRECTORY ${symbols})
  string(APPEND symbols /${CMAKE_MATCH_2}.debug)
  execute_process(
    COMMAND ${CPACK_OBJCOPY_PROGRAM} --only-keep-debug --compress-debug-sections
            ${program} ${symbols} COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD ${symbols}
       PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  execute_process(COMMAND ${CPACK_STRIP_PROGRAM} ${program}
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# Static libraries have no debug information in Debian.
file(GLOB archives ${lib}/*.a)
foreach(archive ${archives})
  # -D: no timestamps.
  execute_process(COMMAND ${CPACK_STRIP_PROGRAM} -D --strip-debug ${archive}
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
