# Writes topkd(8) from what `topkd --help` prints.
#
# usage: topkd --help | awk -v version=VERSION -f man_page.awk
BEGIN {
  print ".TH TOPKD 8 \"\" \"topkd " version "\""
  print ".SH NAME\ntopkd \\- server of TopK over gRPC"
  print ".SH SYNOPSIS\n.B topkd\n[\\fIOPTION\\fR]... [\\fISUBCOMMAND\\fR]"
  print ".SH DESCRIPTION"
  print "Serves TopK as ONNX, OpenVINO and DirectML define it."
}
NR <= 2 || /^$/ { next }
{
  # In roff a backslash begins an escape, and "-" is a hyphen.
  gsub(/\\/, "\\e")
  column = match($0, /^  [^ ]/) && substr($0, 30, 1) == " " ? 31 : 0
  description = column > 0 ? substr($0, column) : ""
  name = column > 0 ? substr($0, 3, column - 4) : substr($0, 3)
}
/^[A-Z][A-Za-z ]*:$/ { sub(/:$/, ""); print ".SS " $0; next }
/^  [^ ]/ {
  sub(/ +$/, "", name)
  gsub(/-/, "\\-", name)
  print ".TP\n.B " name
  if (description != "") text(description)
  next
}
/^ / { sub(/^ +/, ""); text($0); next }
{ print ".PP"; text($0) }
END {
  print ".SH FILES\n.TP\n.I /etc/topkd/topkd.toml"
  print "The settings of the service topkd."
  print ".TP\n.I /run/topkd/ready.json"
  print "The addresses on which the service accepts calls."
  print ".SH SEE ALSO\n.BR topk (1)"
}
function text(line) {
  gsub(/-/, "\\-", line)
  print "\\&" line
}
